#include "emulator/ptx/opcode.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace tilewright::emulator::ptx {
namespace {

struct OpcodeInfo {
  std::string_view name;
  Family family;
};

// Sorted by name, as opcodes.def is.
constexpr OpcodeInfo kOpcodes[] = {
#define TW_OPCODE(enumerator, name, family, forms) {name, Family::family},
#include "emulator/ptx/opcodes.def"
};
static_assert(std::ranges::is_sorted(kOpcodes, {}, &OpcodeInfo::name));

struct Alias {
  std::string_view name;
  Opcode opcode;
};
// The spellings with an explicit `.cta` say what is meant without it.
constexpr Alias kAliases[] = {
    {"bar.cta.arrive", Opcode::kBarArrive},   {"bar.cta.red", Opcode::kBarRed},
    {"bar.cta.sync", Opcode::kBarSync},       {"barrier.cta.arrive", Opcode::kBarrierArrive},
    {"barrier.cta.red", Opcode::kBarrierRed}, {"barrier.cta.sync", Opcode::kBarrierSync},
};

// Opcode names have at most this many dotted parts.
constexpr int kMaxParts = 5;

std::optional<Opcode> find_exact(std::string_view name) {
  const auto it = std::ranges::lower_bound(kOpcodes, name, {}, &OpcodeInfo::name);
  if (it != std::end(kOpcodes) && it->name == name) {
    return static_cast<Opcode>(it - std::begin(kOpcodes));
  }
  const auto alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias != std::end(kAliases)) return alias->opcode;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Opcode opcode) {
  TW_CHECK(opcode < Opcode::kCount, "opcode {}", static_cast<int>(opcode));
  return kOpcodes[static_cast<size_t>(opcode)].name;
}

Family family(Opcode opcode) {
  TW_CHECK(opcode < Opcode::kCount, "opcode {}", static_cast<int>(opcode));
  return kOpcodes[static_cast<size_t>(opcode)].family;
}

std::string_view to_string(Family family) {
  constexpr std::array<std::string_view, 14> kNames = {
      "integer", "float",      "convert",   "memory",   "atomic",  "warp",  "matrix",
      "wgmma",   "async copy", "bulk copy", "mbarrier", "barrier", "fence", "control"};
  return kNames.at(static_cast<size_t>(family));
}

std::optional<OpcodeMatch> find_opcode(std::string_view mnemonic) {
  std::array<size_t, kMaxParts> ends{};
  int num_ends = 0;
  for (size_t i = 0; i <= mnemonic.size() && num_ends < kMaxParts; ++i) {
    if (i == mnemonic.size() || mnemonic[i] == '.') ends[static_cast<size_t>(num_ends++)] = i;
  }
  for (int i = num_ends - 1; i >= 0; --i) {
    const size_t length = ends[static_cast<size_t>(i)];
    if (const auto opcode = find_exact(mnemonic.substr(0, length))) {
      return OpcodeMatch{*opcode, length};
    }
  }
  return std::nullopt;
}

}  // namespace tilewright::emulator::ptx
