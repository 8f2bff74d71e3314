// Test kernels through NVRTC: their files and the templates they include are embedded here.
#pragma once

#include <string>
#include <string_view>

#include "runtime/compile.h"
#include "tilewright/result.h"

namespace tilewright::hopper_kernels {

// `root`: "tests/hopper_kernels/gemm.cuh"; `text`: the few lines that name a template of it and its
// config, with the entry `entry_name`.
Result<CompiledCode> compile_kernel(std::string_view root, std::string_view entry_name,
                                    std::string_view text);

}  // namespace tilewright::hopper_kernels
