#include "generator/generator.h"

#include "core/check.h"
#include "generator/family.h"

namespace tilewright {
std::vector<Refusal> refusals(const Problem& problem, const Arch& arch) {
  std::vector<Refusal> all;
  for (const Family& family : families()) {
    for (std::string& reason : family.refusals(problem, arch)) {
      all.push_back({std::string(family.name), std::move(reason)});
    }
  }
  return all;
}

std::vector<AnyConfig> candidates(const Problem& problem, const Arch& arch) {
  std::vector<AnyConfig> all;
  for (const Family& family : families()) {
    if (!family.refusals(problem, arch).empty()) continue;
    for (AnyConfig& config : family.candidates(problem, arch)) all.push_back(std::move(config));
  }
  return all;
}

Result<Choice> choose_config(const Problem& problem, const Arch& arch) {
  Choice choice;
  choice.refusals = refusals(problem, arch);
  for (const Family& family : families()) {
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
