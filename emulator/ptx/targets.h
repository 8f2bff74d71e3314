// The targets of PTX and since which version of the ISA each is one.
#pragma once

#include <optional>
#include <string_view>

namespace tilewright::emulator::ptx {

struct PtxVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const PtxVersion&) const = default;
};

// Of "sm_90a"; nothing for what ptxas 13.0 does not know.
std::optional<PtxVersion> first_version(std::string_view target);

}  // namespace tilewright::emulator::ptx
