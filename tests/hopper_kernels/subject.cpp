#include "tests/hopper_kernels/subject.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/text.h"

namespace tilewright::hopper_kernels {

std::string to_string(const Schedule& schedule) {
  switch (schedule.kind) {
    case TW_EMULATOR_SCHEDULE_EAGER:
      return "eager";
    case TW_EMULATOR_SCHEDULE_LAZY:
      return "lazy";
    case TW_EMULATOR_SCHEDULE_RANDOM:
      break;
  }
  return fmt::format("random:{}", schedule.seed);
}

Result<Schedule> parse_schedule(std::string_view text) {
  if (text == "eager") return Schedule{TW_EMULATOR_SCHEDULE_EAGER, 0};
  if (text == "lazy") return Schedule{TW_EMULATOR_SCHEDULE_LAZY, 0};
  constexpr std::string_view kRandom = "random:";
  if (!text.starts_with(kRandom)) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' is no schedule: eager, lazy, random:SEED",
                      text);
  }
  TW_ASSIGN(const uint64_t seed, parse_uint(text.substr(kRandom.size())));
  return Schedule{TW_EMULATOR_SCHEDULE_RANDOM, seed};
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kWrong:
      return "wrong";
    case Verdict::kReported:
      return "reported";
    case Verdict::kDeadlock:
      return "deadlock";
    case Verdict::kEndless:
      return "endless";
    case Verdict::kRefused:
      return "refused";
  }
  return "?";
}

}  // namespace tilewright::hopper_kernels
