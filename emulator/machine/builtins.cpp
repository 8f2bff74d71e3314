#include "emulator/machine/builtins.h"

#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/access.h"
#include "emulator/machine/block.h"

namespace tilewright::emulator {
namespace {

enum Builtin : uint8_t { kNone, kVprintf, kAssertFail, kMalloc, kFree };

// Longest text of a kernel's format or %s argument.
constexpr size_t kMaxText = 4096;

uint64_t argument(Warp& warp, const CallForm& form, size_t index, uint32_t lane) {
  const ParamWindow& window = form.arguments[index];
  const auto* words = reinterpret_cast<const uint32_t*>(warp.bases[0] + window.first);
  const uint64_t low = words[lane];
  return window.bytes > 4 ? low | uint64_t{words[32 + lane]} << 32 : low;
}

// False: a fault is recorded.
bool read_text(Warp& warp, const Instruction* i, uint64_t address, uint32_t lane,
               std::string* text) {
  for (size_t n = 0; n < kMaxText; ++n) {
    const std::byte* byte =
        resolve_lane(warp, i, ptx::StateSpace::kGeneric, address + n, 1, AccessKind::kRead, lane);
    if (byte == nullptr) return false;
    if (*byte == std::byte{0}) return true;
    text->push_back(static_cast<char>(*byte));
  }
  return true;
}

// The next variadic argument: 4 bytes for ints, 8 for doubles, pointers and long, aligned.
class Arguments {
 public:
  Arguments(Warp& warp, const Instruction* i, uint64_t address, uint32_t lane)
      : warp_(warp), i_(i), address_(address), lane_(lane) {}
  bool next(uint32_t bytes, uint64_t* value) {
    offset_ = (offset_ + bytes - 1) / bytes * bytes;
    const std::byte* from = resolve_lane(warp_, i_, ptx::StateSpace::kGeneric, address_ + offset_,
                                         bytes, AccessKind::kRead, lane_);
    if (from == nullptr) return false;
    *value = 0;
    std::memcpy(value, from, bytes);
    offset_ += bytes;
    return true;
  }

 private:
  Warp& warp_;
  const Instruction* i_;
  uint64_t address_;
  uint64_t offset_ = 0;
  uint32_t lane_;
};

std::string print_integer(const std::string& flags, char conversion, bool wide, uint64_t value) {
  char text[128];
  const std::string spec = "%" + flags + "ll" + conversion;
  const bool is_signed = conversion == 'd' || conversion == 'i';
  if (is_signed) {
    const int64_t number = wide ? static_cast<int64_t>(value)
                                : int64_t{static_cast<int32_t>(static_cast<uint32_t>(value))};
    std::snprintf(text, sizeof text, spec.c_str(), static_cast<long long>(number));
  } else {
    std::snprintf(text, sizeof text, spec.c_str(), static_cast<unsigned long long>(value));
  }
  return text;
}

// One conversion of a format; `at` points behind the '%'.
bool format_one(Warp& warp, const Instruction* i, const std::string& format, size_t* at,
                Arguments& arguments, uint32_t lane, std::string* out) {
  std::string flags;
  while (*at < format.size() && std::strchr("-+ #0123456789.", format[*at]) != nullptr &&
         flags.size() < 20) {
    flags.push_back(format[(*at)++]);
  }
  bool wide = false;
  while (*at < format.size() && std::strchr("lhzjt", format[*at]) != nullptr) {
    wide |= format[*at] != 'h';
    ++*at;
  }
  if (*at >= format.size()) return true;
  const char conversion = format[(*at)++];
  uint64_t value = 0;
  char text[512];
  switch (conversion) {
    case '%':
      out->push_back('%');
      return true;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (!arguments.next(wide ? 8 : 4, &value)) return false;
      *out += print_integer(flags, conversion, wide, value);
      return true;
    case 'c':
      if (!arguments.next(4, &value)) return false;
      out->push_back(static_cast<char>(value));
      return true;
    case 'p':
      if (!arguments.next(8, &value)) return false;
      *out += fmt::format("{:#x}", value);
      return true;
    case 's': {
      if (!arguments.next(8, &value)) return false;
      std::string piece;
      if (!read_text(warp, i, value, lane, &piece)) return false;
      *out += piece;
      return true;
    }
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
      if (!arguments.next(8, &value)) return false;
      const std::string spec = "%" + flags + conversion;
      std::snprintf(text, sizeof text, spec.c_str(), std::bit_cast<double>(value));
      *out += text;
      return true;
    }
    default:
      out->push_back(conversion);
      return true;
  }
}

const Instruction* print(Warp& warp, const Instruction* i, const CallForm& form) {
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    std::string format;
    if (!read_text(warp, i, argument(warp, form, 0, lane), lane, &format)) return nullptr;
    Arguments arguments(warp, i, argument(warp, form, 1, lane), lane);
    std::string out;
    for (size_t at = 0; at < format.size();) {
      if (format[at] != '%') {
        out.push_back(format[at++]);
        continue;
      }
      ++at;
      if (!format_one(warp, i, format, &at, arguments, lane, &out)) return nullptr;
    }
    warp.block->printed += out;
    if (!form.results.empty()) {
      reinterpret_cast<uint32_t*>(warp.bases[0] + form.results[0].first)[lane] = 1;
    }
  }
  return i + 1;
}

const Instruction* assert_fail(Warp& warp, const Instruction* i, const CallForm& form) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(warp.mask));
  std::string text[3];
  const size_t which[] = {0, 1, 3};  // message, file, function
  for (size_t n = 0; n < 3; ++n) {
    if (which[n] >= form.arguments.size()) continue;
    const uint64_t address = argument(warp, form, which[n], lane);
    if (!read_text(warp, i, address, lane, &text[n])) return nullptr;
  }
  const uint64_t line = form.arguments.size() > 2 ? argument(warp, form, 2, lane) : 0;
  return fault(warp, i,
               {.kind = FaultKind::kAssert,
                .message = fmt::format("assertion `{}` failed in {} at {}:{}", text[0], text[2],
                                       text[1], line)});
}

}  // namespace

uint8_t find_builtin(std::string_view name) {
  if (name == "vprintf") return kVprintf;
  if (name == "__assertfail") return kAssertFail;
  if (name == "malloc") return kMalloc;
  if (name == "free") return kFree;
  return kNone;
}

const Instruction* call_builtin(Warp& warp, const Instruction* i, const CallForm& form) {
  switch (form.builtin) {
    case kVprintf:
      return print(warp, i, form);
    case kAssertFail:
      return assert_fail(warp, i, form);
    default:
      return fault(warp, i,
                   {.kind = FaultKind::kIllegalInstruction,
                    .message = "device-side malloc and free are not emulated"});
  }
}

}  // namespace tilewright::emulator
