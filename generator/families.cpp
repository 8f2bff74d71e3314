#include <algorithm>
#include <array>

#include "core/check.h"
#include "generator/backward_sm80.h"
#include "generator/family.h"
#include "generator/forward_sm80.h"
#include "generator/forward_sm90.h"
#include "generator/linear_forward.h"
#include "generator/linear_step.h"
#include "generator/standard.h"

namespace tilewright {
namespace {

// Most families only need pointers and strides.
template <class Host>
concept MakesTensorMaps = requires(const typename Host::Config& config, const BoundTensors& tensors,
                                   const TensorMapEncoder& encoder, typename Host::Params& params) {
  Host::bind(config, tensors, encoder, params);
};

// The table row of a host side: its functions with the config's type erased.
template <class Host>
constexpr Family row() {
  using Config = typename Host::Config;
  return {
      .name = Config::family(),
      .template_path = Host::kTemplatePath,
      .config_type = Host::kConfigType,
      .params_type = Host::kParamsType,
      .takes = Host::takes,
      .refusals = Host::refusals,
      .candidates = [](const Problem& problem, const Arch& arch) -> std::vector<AnyConfig> {
        const std::vector<Config> configs = Host::candidates(problem, arch);
        return {configs.begin(), configs.end()};
      },
      .default_config = [](const Problem& problem, const Arch& arch) -> AnyConfig {
        return Host::default_config(problem, arch);
      },
      .entries = [](const AnyConfig& config) { return Host::entries(std::get<Config>(config)); },
      .plan =
          [](const Problem& problem, const AnyConfig& config, const Arch& arch,
             const Shape& shape) {
            Result<FamilyLaunch> launch =
                Host::plan(problem, std::get<Config>(config), arch, shape);
            // Where nothing is launched there may be no parameters; they are of this type anyway.
            if (launch.ok() && launch->empty()) launch->params = typename Host::Params{};
            return launch;
          },
      .bind = [](const AnyConfig& config, const BoundTensors& tensors,
                 const TensorMapEncoder& encoder, FamilyLaunch& launch) -> Status {
        auto& params = std::get<typename Host::Params>(launch.params);
        if constexpr (MakesTensorMaps<Host>) {
          return Host::bind(std::get<Config>(config), tensors, encoder, params);
        } else {
          Host::bind(tensors, params);
          return {};
        }
      },
  };
}

constexpr std::array kFamilies = {row<ForwardSm90>(),   row<ForwardSm80>(), row<Standard>(),
                                  row<LinearForward>(), row<LinearStep>(),  row<BackwardSm80>()};
static_assert(kFamilies.size() == std::variant_size_v<AnyConfig>);

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& family_of(const AnyConfig& config) {
  const std::string_view name = family_name(config);
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const Family& each) { return each.name == name; });
  TW_CHECK(family != kFamilies.end(), "no family {}", name);
  return *family;
}

}  // namespace tilewright
