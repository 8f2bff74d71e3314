// Arch: what a kernel family needs to know of a GPU to choose and plan. DeviceProfile: a named,
// complete description, used by the emulator and for planning with no device at hand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilewright/result.h"

namespace tilewright {

// Limits and rates of one architecture, per SM unless named otherwise.
struct Arch {
  int compute_major = 0;
  int compute_minor = 0;
  // Arch-specific features (the "a" of sm_90a): wgmma, setmaxnreg. A binary for such a target
  // serves this compute capability only.
  bool has_suffix = false;
  int num_sms = 0;
  int64_t shared_bytes_per_sm = 0;
  int64_t shared_bytes_per_block = 0;    // opt-in maximum of one block, static + dynamic
  int64_t shared_bytes_reserved = 1024;  // per block, taken by the system
  int max_warps_per_sm = 0;
  int max_blocks_per_sm = 0;
  int registers_per_sm = 65536;
  int max_registers_per_thread = 255;
  int64_t l2_bytes = 0;

  // 80, 86, 89, 90, …
  int compute_capability() const { return compute_major * 10 + compute_minor; }
  // "sm_80", "sm_90a": the target handed to NVRTC.
  std::string target() const;
  bool operator==(const Arch&) const = default;
};

// A device that the emulator can be. Clocks in MHz, bandwidths in bytes per second.
struct DeviceProfile {
  std::string_view name;       // "h100", as in emulated:h100
  std::string_view marketing;  // "NVIDIA H100 SXM"
  Arch arch;
  int64_t memory_bytes = 0;
  double clock_mhz = 0;  // the stated clock of simulated time
  double dram_bytes_per_second = 0;
  int64_t memory_bus_bits = 0;
  double memory_clock_mhz = 0;
};

// h100, h200, a100, rtx3090, rtx4090, l40s.
std::span<const DeviceProfile> device_profiles();
// kNotFound names the known profiles.
Result<DeviceProfile> find_profile(std::string_view name);
// The limits of "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a" (those of its largest profile), to
// compile and plan with no device. kNotFound names the known targets.
Result<Arch> arch_from_target(std::string_view target);

}  // namespace tilewright
