// Checks of the files that a command is to write, before it spends time on what goes into them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilewright/result.h"

namespace tilewright::cli {

// A flag and the path it was given; an empty path was not given.
struct FileFlag {
  std::string_view flag;
  std::string path;
};

// kInvalidArgument if an output is the same file as another or as an input, whatever the spelling,
// or if it could not be written: no such folder, no permission.
Status check_outputs(const std::vector<FileFlag>& outputs, const std::vector<FileFlag>& inputs);

}  // namespace tilewright::cli
