#include "generator/refusals.h"

#include <fmt/format.h>

namespace tilewright {
namespace {

void check_arch(NeededArch needed, const Arch& arch, std::vector<std::string>& reasons) {
  const bool sm90a = needed == NeededArch::kSm90a;
  const bool runs = sm90a ? arch.target() == "sm_90a" : arch.compute_capability() >= 80;
  if (runs) return;
  reasons.push_back(
      fmt::format("needs {}, device is {}", sm90a ? "sm_90a" : "sm_80", arch.target()));
}

void check_head_dims(const Problem& problem, std::vector<std::string>& reasons) {
  const auto check = [&](const char* name, int64_t dim) {
    if (dim >= 8 && dim <= 256 && dim % 8 == 0) return;
    reasons.push_back(fmt::format("{}={} is not a multiple of 8 from 8 to 256", name, dim));
  };
  if (!problem.head_dim_qk) reasons.push_back("head_dim_qk is missing");
  if (problem.head_dim_qk) check("head_dim_qk", *problem.head_dim_qk);
  if (problem.head_dim_v) check("head_dim_v", *problem.head_dim_v);
}

}  // namespace

std::vector<std::string> common_refusals(std::string_view family, NeededArch needed,
                                         const Problem& problem, const Arch& arch,
                                         const std::vector<std::string>& features) {
  std::vector<std::string> reasons;
  check_arch(needed, arch, reasons);
  for (const std::string& feature : features) {
    reasons.push_back(fmt::format("{} is not built yet in {}", feature, family));
  }
  check_head_dims(problem, reasons);
  return reasons;
}

std::string no_config_fits(const Arch& arch) {
  return fmt::format(
      "no config fits the {} bytes of shared memory of a block and the {} registers of a thread of "
      "{}",
      arch.shared_bytes_per_block, arch.max_registers_per_thread, arch.target());
}

}  // namespace tilewright
