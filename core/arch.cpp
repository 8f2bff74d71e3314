#include "core/arch.h"

#include <array>

#include "core/check.h"

namespace tilewright {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;

constexpr Arch hopper(int num_sms, int64_t l2_bytes) {
  return {.compute_major = 9,
          .compute_minor = 0,
          .has_suffix = true,
          .num_sms = num_sms,
          .shared_bytes_per_sm = 228 * kKiB,
          .shared_bytes_per_block = 227 * kKiB,
          .max_warps_per_sm = 64,
          .max_blocks_per_sm = 32,
          .l2_bytes = l2_bytes};
}

constexpr Arch ampere_large(int num_sms, int64_t l2_bytes) {
  return {.compute_major = 8,
          .compute_minor = 0,
          .num_sms = num_sms,
          .shared_bytes_per_sm = 164 * kKiB,
          .shared_bytes_per_block = 163 * kKiB,
          .max_warps_per_sm = 64,
          .max_blocks_per_sm = 32,
          .l2_bytes = l2_bytes};
}

// sm_86 and sm_89 share all per-SM limits but the number of resident blocks.
constexpr Arch small_sm(int minor, int num_sms, int max_blocks, int64_t l2_bytes) {
  return {.compute_major = 8,
          .compute_minor = minor,
          .num_sms = num_sms,
          .shared_bytes_per_sm = 100 * kKiB,
          .shared_bytes_per_block = 99 * kKiB,
          .max_warps_per_sm = 48,
          .max_blocks_per_sm = max_blocks,
          .l2_bytes = l2_bytes};
}

// Data sheets; the clock is the one simulated time is stated at.
constexpr std::array kProfiles = {
    DeviceProfile{"h100", "NVIDIA H100 SXM5 80GB", hopper(132, 50 * kMiB), 80 * kGiB, 1755.0,
                  3.35e12, 5120, 2619.0},
    DeviceProfile{"h200", "NVIDIA H200 SXM", hopper(132, 50 * kMiB), 141 * kGiB, 1755.0, 4.8e12,
                  6144, 3201.0},
    DeviceProfile{"a100", "NVIDIA A100 SXM4 80GB", ampere_large(108, 40 * kMiB), 80 * kGiB, 1410.0,
                  2.039e12, 5120, 1593.0},
    DeviceProfile{"rtx3090", "NVIDIA GeForce RTX 3090", small_sm(6, 82, 16, 6 * kMiB), 24 * kGiB,
                  1695.0, 9.36e11, 384, 9751.0},
    DeviceProfile{"rtx4090", "NVIDIA GeForce RTX 4090", small_sm(9, 128, 24, 72 * kMiB), 24 * kGiB,
                  2520.0, 1.008e12, 384, 10501.0},
    DeviceProfile{"l40s", "NVIDIA L40S", small_sm(9, 142, 24, 96 * kMiB), 48 * kGiB, 2520.0,
                  8.64e11, 384, 9001.0},
};

}  // namespace

std::string Arch::target() const {
  return fmt::format("sm_{}{}", compute_capability(), has_suffix ? "a" : "");
}

std::span<const DeviceProfile> device_profiles() { return kProfiles; }

Result<DeviceProfile> find_profile(std::string_view name) {
  std::string known;
  for (const DeviceProfile& profile : kProfiles) {
    if (profile.name == name) return profile;
    known += (known.empty() ? "" : ", ") + std::string(profile.name);
  }
  return make_error(ErrorCode::kNotFound, "no device profile '{}'; known profiles: {}", name,
                    known);
}

Result<Arch> arch_from_target(std::string_view target) {
  struct Row {
    std::string_view target, profile;
    bool has_suffix;
  };
  constexpr std::array kRows = {
      Row{"sm_80", "a100", false}, Row{"sm_86", "rtx3090", false}, Row{"sm_89", "l40s", false},
      Row{"sm_90", "h100", false}, Row{"sm_90a", "h100", true},
  };
  std::string known;
  for (const Row& row : kRows) {
    if (row.target == target) {
      TW_ASSIGN(const DeviceProfile profile, find_profile(row.profile));
      Arch arch = profile.arch;
      arch.has_suffix = row.has_suffix;
      return arch;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.target);
  }
  return make_error(ErrorCode::kNotFound, "unknown target '{}'; known targets: {}", target, known);
}

}  // namespace tilewright
