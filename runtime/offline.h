// Compiling with no device at hand (`tilewright compile --arch sm_80`), and finding the compiler of
// some options.
#pragma once

#include <memory>

#include "core/any_config.h"
#include "runtime/cache.h"
#include "runtime/nvrtc.h"
#include "tilewright/session.h"

namespace tilewright {

// The NVRTC that a session of these options takes on a driver of this major (0 = no driver).
Result<NvrtcLocation> nvrtc_for(const Options& options, int driver_major);

// One compile without a Session: through the options' cache, for any target that NVRTC knows.
Result<CacheResult> compile_offline(const Options& options, const Problem& problem,
                                    const AnyConfig& config, std::string_view target);

}  // namespace tilewright
