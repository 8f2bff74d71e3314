#include "tests/cli/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "core/text.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {

Json Finished::json() const {
  Result<Json> json = Json::parse(out);
  EXPECT_TRUE(json.ok()) << out << err;
  return json.ok() ? *std::move(json) : Json();
}

std::string tilewright_path() { return TW_CLI; }

Finished run_shell(const std::string& command) {
  const ScratchFolder folder;
  const std::string bin = std::filesystem::path(tilewright_path()).parent_path().string();
  const std::string environment =
      "unset TILEWRIGHT_CACHE_DIR TILEWRIGHT_DEVICE TILEWRIGHT_LOG TILEWRIGHT_NVRTC "
      "TILEWRIGHT_TEMPLATES XDG_CACHE_HOME HOME; PATH=" +
      shell_quote(bin) + ":$PATH; export PATH; ";
  const std::string line = environment + command + " >" + shell_quote(folder / "out") + " 2>" +
                           shell_quote(folder / "err") + " </dev/null";
  const int status = std::system(line.c_str());
  Finished finished;
  if (WIFEXITED(status)) finished.code = WEXITSTATUS(status);
  if (finished.code > 128) finished.code = -1;  // the shell's word for a signal
  finished.out = read_file(folder / "out").ok() ? *read_file(folder / "out") : "";
  finished.err = read_file(folder / "err").ok() ? *read_file(folder / "err") : "";
  return finished;
}

Finished run_tilewright(const std::vector<std::string>& words) {
  std::vector<std::string> command = {tilewright_path()};
  command.insert(command.end(), words.begin(), words.end());
  return run_shell(shell_command(command));
}

}  // namespace tilewright::testing
