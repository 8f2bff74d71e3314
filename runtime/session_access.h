// What the rest of the house may do with a Session beyond the public API: reach its device, and
// prepare a kernel with a config of its own choice (autotune, tests).
#pragma once

#include "core/any_config.h"
#include "runtime/device.h"
#include "tilewright/session.h"

namespace tilewright {

struct SessionAccess {
  static const Device& device(const Session& session);
  // Not kept by problem; code and module are shared with every kernel of the same source.
  static Result<Kernel> prepare_with_config(Session& session, const Problem& problem,
                                            const AnyConfig& config);
  // Whether NVRTC was loaded: a disk hit must not.
  static bool compiler_loaded(const Session& session);
};

}  // namespace tilewright
