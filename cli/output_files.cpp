#include "cli/output_files.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/check.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

// The file that a name stands for once it is written: absolute, and through links, those that lead
// to nothing yet too. weakly_canonical() leaves both out where a name does not exist.
fs::path final_path(const fs::path& name) {
  constexpr int kMostLinks = 40;  // the system's own limit
  std::error_code error;
  fs::path path = fs::absolute(name, error);
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // an absolute target stands alone
  }
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : whole;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  return final_path(a) == final_path(b);
}

Error unwritable(const std::string& path, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, "cannot write '{}': {}", path, why);
}

Status check_writable(const std::string& path) {
  std::error_code error;
  const fs::file_status target = fs::status(path, error);
  if (fs::is_directory(target)) return unwritable(path, "it is a folder");
  // Devices and pipes are written in place; a file is replaced, which takes its folder's consent.
  if (fs::exists(target) && !fs::is_regular_file(target)) {
    if (::access(path.c_str(), W_OK) == 0) return {};
    return unwritable(path, std::generic_category().message(errno));
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) {
    return unwritable(path, fmt::format("there is no folder '{}'", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return unwritable(path, std::generic_category().message(errno));
}

}  // namespace

Status check_outputs(const std::vector<FileFlag>& outputs, const std::vector<FileFlag>& inputs) {
  std::vector<FileFlag> others = inputs;
  for (const FileFlag& output : outputs) {
    if (output.path.empty()) continue;
    for (const FileFlag& other : others) {
      if (!other.path.empty() && same_file(output.path, other.path)) {
        return make_error(ErrorCode::kInvalidArgument, "{} and {} are the same file, '{}'",
                          other.flag, output.flag, output.path);
      }
    }
    others.push_back(output);
  }
  for (const FileFlag& output : outputs) {
    if (!output.path.empty()) TW_TRY(check_writable(output.path));
  }
  return {};
}

}  // namespace tilewright::cli
