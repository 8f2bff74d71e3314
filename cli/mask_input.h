// The data of masks that `run` computes with: --blocks and --documents.
#pragma once

#include "cli/run_input.h"
#include "tilewright/result.h"

namespace tilewright::cli {

// The data of the problem's masks: from files as far as given, else as random_inputs made them.
// kInvalidArgument where a file is not what the problem's mask needs, or is absent although the
// other tensors come from files.
Status read_mask_data(const InputFiles& files, RunInput& input);

}  // namespace tilewright::cli
