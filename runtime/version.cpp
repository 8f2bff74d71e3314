#include "tilewright/session.h"

namespace tilewright {

extern "C" const char* tilewright_version() { return TW_VERSION; }

}  // namespace tilewright
