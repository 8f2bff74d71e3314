#include "generator/generator.h"

#include <array>

#include "core/check.h"
#include "generator/forward_sm80.h"

namespace tilewright {
namespace {

// The kernel families, in order of preference.
struct Family {
  const char* name;
  std::vector<std::string> (*refusals)(const Problem&, const Arch&);
  std::vector<AnyConfig> (*candidates)(const Problem&, const Arch&);
  AnyConfig (*default_config)(const Problem&, const Arch&);
};

template <class Config>
std::vector<AnyConfig> erase_type(const std::vector<Config>& configs) {
  return {configs.begin(), configs.end()};
}

constexpr std::array kFamilies = {
    Family{forward_sm80::kName, forward_sm80::refusals,
           [](const Problem& problem, const Arch& arch) {
             return erase_type(forward_sm80::candidates(problem, arch));
           },
           [](const Problem& problem, const Arch& arch) -> AnyConfig {
             return forward_sm80::default_config(problem, arch);
           }},
};

}  // namespace

std::vector<Refusal> refusals(const Problem& problem, const Arch& arch) {
  std::vector<Refusal> all;
  for (const Family& family : kFamilies) {
    for (std::string& reason : family.refusals(problem, arch)) {
      all.push_back({family.name, std::move(reason)});
    }
  }
  return all;
}

std::vector<AnyConfig> candidates(const Problem& problem, const Arch& arch) {
  std::vector<AnyConfig> all;
  for (const Family& family : kFamilies) {
    if (!family.refusals(problem, arch).empty()) continue;
    for (AnyConfig& config : family.candidates(problem, arch)) all.push_back(std::move(config));
  }
  return all;
}

Result<Choice> choose_config(const Problem& problem, const Arch& arch) {
  Choice choice;
  choice.refusals = refusals(problem, arch);
  for (const Family& family : kFamilies) {
    if (!family.refusals(problem, arch).empty()) continue;
    choice.config = family.default_config(problem, arch);
    choice.provenance = "default";
    return choice;
  }
  Error error = make_error(ErrorCode::kUnsupportedProblem, "no kernel family takes '{}' on {}",
                           problem.to_string(), arch.target());
  for (const Refusal& refusal : choice.refusals) {
    error.reasons.push_back(fmt::format("{}: {}", refusal.family, refusal.reason));
  }
  return error;
}

}  // namespace tilewright
