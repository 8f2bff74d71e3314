// From Problem to source text, in pure steps: refusals -> candidates -> choose_config -> emit.
// No I/O, no driver; everything here is a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/any_config.h"
#include "core/arch.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// Why one family does not take a problem: "needs sm_80, device is sm_75".
struct Refusal {
  std::string family;
  std::string reason;
  bool operator==(const Refusal&) const = default;
};

// The stub of one compiled unit: about ten lines of CUDA that name a template and its config.
struct KernelSource {
  std::string family;                    // "forward_sm80"
  std::string template_path;             // "attention/forward_sm80.cuh", root of its includes
  std::vector<std::string> entry_names;  // {"tw_forward"}, in the order of the family's entries
  std::string text;
};

// The outcome of choosing: the config, who chose it, and who refused.
struct Choice {
  AnyConfig config;
  std::string provenance;  // "default", "tuned exact", …
  std::vector<Refusal> refusals;
};

// Every reason of every family of the problem's pass; empty only if they all take the problem. Head
// dims must be present (a missing one is a refusal); any other absent dim is no obstacle.
std::vector<Refusal> refusals(const Problem& problem, const Arch& arch);
// Every config that may run: never one that the family would refuse or that exceeds the arch.
// Empty if every family refuses.
std::vector<AnyConfig> candidates(const Problem& problem, const Arch& arch);
// kUnsupportedProblem with every refusal among the reasons.
Result<Choice> choose_config(const Problem& problem, const Arch& arch);
// `config` is one of candidates(problem, …) or chosen by choose_config.
KernelSource emit(const Problem& problem, const AnyConfig& config);

}  // namespace tilewright
