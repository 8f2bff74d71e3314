// The program `tilewright`: picks the subcommand.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"
#include "tilewright/session.h"

namespace tilewright::cli {
namespace {

struct Command {
  std::string_view name, summary;
  int (*run)(Words words);
};

constexpr Command kCommands[] = {
    {"devices", "list the GPUs here and the devices that can be emulated", run_devices},
    {"run", "compute attention of files or random tensors, and check it", run_run},
    {"compile", "compile a kernel, with no device needed; emit CUDA, PTX or a cubin", run_compile},
    {"explain", "show how a problem becomes a kernel, step by step", run_explain},
    {"cache", "list, measure or clear the kernel cache", run_cache},
    {"io", "count what attention must move between memories, and what algorithms move", run_io},
    {"doctor", "check this machine, and say how to mend what is wrong", run_doctor},
};

// Commands to come; refused by name rather than as unknown.
constexpr std::string_view kUnbuilt[] = {"tune", "bench", "report"};

std::string help() {
  std::string text =
      "Attention kernels for NVIDIA GPUs, made at run time.\n\n"
      "usage: tilewright COMMAND [flags]\n\nCommands:\n";
  Table table;
  for (const Command& command : kCommands) {
    table.row({"", std::string(command.name), std::string(command.summary)});
  }
  text += table.text();
  text +=
      "\ntilewright COMMAND --help shows a command's flags. Exit codes: 0 success, 1 a check or "
      "run failed,\n2 bad usage, 3 unsupported, with reasons.\n";
  return text;
}

int dispatch(Words words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", help());
    return kBadUsage;
  }
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_text(help());
    return kSuccess;
  }
  if (name == "--version") {
    print_text(fmt::format("tilewright {}\n", tilewright_version()));
    return kSuccess;
  }
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(words.subspan(1));
    names.push_back(command.name);
  }
  if (std::find(std::begin(kUnbuilt), std::end(kUnbuilt), name) != std::end(kUnbuilt)) {
    fmt::print(stderr, "tilewright: {} is not built yet\n", name);
    return kUnsupported;
  }
  const std::string near = nearest_name(name, names);
  fmt::print(stderr, "tilewright: unknown command '{}'{}\nsee tilewright --help\n", name,
             near.empty() ? "" : fmt::format("; did you mean {}?", near));
  return kBadUsage;
}

// The last line of defence: memory that a tensor does not fit in ends in a sentence, not a core.
int dispatch_guarded(Words words) {
  try {
    return dispatch(words);
  } catch (const std::bad_alloc&) {
    std::fputs("tilewright: this machine's memory is exhausted\n", stderr);
  } catch (const std::exception& exception) {
    fmt::print(stderr, "tilewright: internal error: {}\n", exception.what());
  }
  return kFailure;
}

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) {
  using namespace tilewright::cli;
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const int code = dispatch_guarded(words);
  if (!finish_output()) {
    std::fputs("tilewright: standard output could not be written\n", stderr);
    return code == kSuccess ? kFailure : code;
  }
  return code;
}
