#include "templates/embedded.h"

namespace tilewright {

#include "templates.inc"  // k_templates, written by tw_embed_files

std::span<const EmbeddedFile> embedded_templates() { return k_templates; }

}  // namespace tilewright
