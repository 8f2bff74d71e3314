// The subjects as a program, for tools that change their PTX:
//
//   hopper_kernel_runner list                     name, stride of barriers, bytes of a slot; by
//   tabs hopper_kernel_runner ptx NAME                 the PTX that NVRTC makes
//   hopper_kernel_runner run NAME FILE SCHEDULE…  runs the PTX in FILE; one line per schedule:
//                                                 schedule, verdict, first line of the detail
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>

#include "core/files.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {
namespace {

int fail(const std::string& message) {
  fmt::print(stderr, "hopper_kernel_runner: {}\n", message);
  return 2;
}

int print_ptx(const Subject& subject) {
  const auto code = subject.compile();
  if (!code.ok()) return fail(code.error().to_string());
  std::fputs(code->ptx.c_str(), stdout);
  return 0;
}

int run_all(const Subject& subject, const char* file, std::span<char* const> schedules) {
  const auto ptx = read_file(file);
  if (!ptx.ok()) return fail(ptx.error().to_string());
  for (const char* text : schedules) {
    const auto schedule = parse_schedule(text);
    if (!schedule.ok()) return fail(schedule.error().to_string());
    Outcome outcome = subject.run(*ptx, *schedule);
    std::replace(outcome.detail.begin(), outcome.detail.end(), '\n', ' ');
    fmt::print("{}\t{}\t{}\n", text, to_string(outcome.verdict), outcome.detail);
    std::fflush(stdout);
  }
  return 0;
}

int run_command(std::span<char* const> arguments) {
  const auto subjects = all_subjects();
  const std::string_view command = arguments.size() > 1 ? arguments[1] : "";
  if (command == "list") {
    for (const auto& each : subjects) {
      const SlotLayout layout = each->layout();
      fmt::print("{}\t{}\t{}\n", each->name(), layout.barrier_stride, layout.slot_bytes);
    }
    return 0;
  }
  if (arguments.size() < 3) return fail("list | ptx NAME | run NAME FILE SCHEDULE…");
  const auto subject = std::find_if(subjects.begin(), subjects.end(),
                                    [&](const auto& each) { return each->name() == arguments[2]; });
  if (subject == subjects.end()) return fail(fmt::format("no kernel '{}'", arguments[2]));
  if (command == "ptx") return print_ptx(**subject);
  if (command == "run" && arguments.size() > 4) {
    return run_all(**subject, arguments[3], arguments.subspan(4));
  }
  return fail("list | ptx NAME | run NAME FILE SCHEDULE…");
}

}  // namespace
}  // namespace tilewright::hopper_kernels

int main(int argc, char** argv) {
  return tilewright::hopper_kernels::run_command(std::span(argv, static_cast<size_t>(argc)));
}
