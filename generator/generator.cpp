#include "generator/generator.h"

#include "core/check.h"
#include "generator/family.h"

namespace tilewright {
namespace {

bool takes(const Family& family, const Problem& problem, const Arch& arch) {
  return family.takes(problem.pass) && family.refusals(problem, arch).empty();
}

}  // namespace

std::vector<Refusal> refusals(const Problem& problem, const Arch& arch) {
  std::vector<Refusal> all;
  bool known_pass = false;
  for (const Family& family : families()) {
    if (!family.takes(problem.pass)) continue;
    known_pass = true;
    for (std::string& reason : family.refusals(problem, arch)) {
      all.push_back({std::string(family.name), std::move(reason)});
    }
  }
  if (!known_pass) {
    all.push_back(
        {"every family", fmt::format("pass {} is not built yet", to_string(problem.pass))});
  }
  return all;
}

std::vector<AnyConfig> candidates(const Problem& problem, const Arch& arch) {
  std::vector<AnyConfig> all;
  for (const Family& family : families()) {
    if (!takes(family, problem, arch)) continue;
    for (AnyConfig& config : family.candidates(problem, arch)) all.push_back(std::move(config));
  }
  return all;
}

Result<Choice> choose_config(const Problem& problem, const Arch& arch) {
  Choice choice;
  choice.refusals = refusals(problem, arch);
  for (const Family& family : families()) {
    if (!takes(family, problem, arch)) continue;
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
