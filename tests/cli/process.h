// Runs the program `tilewright` as a process of its own, the way a user does.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace tilewright::testing {

struct Finished {
  int code = -1;  // -1: ended by a signal
  std::string out, err;

  // stdout as JSON; null, and a test failure, if it is none.
  Json json() const;
};

// `tilewright` with these words, in an environment without TILEWRIGHT_*, XDG_CACHE_HOME and HOME.
Finished run_tilewright(const std::vector<std::string>& words);
// Any command line through `sh -c`, in that environment, with `tilewright` on the PATH.
Finished run_shell(const std::string& command);

std::string tilewright_path();

}  // namespace tilewright::testing
