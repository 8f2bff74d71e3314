// What the refusals of all families have in common, so that one fact has one wording.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "core/check.h"
#include "tilewright/problem.h"

namespace tilewright {

enum class NeededArch { kSm80OrLater, kSm90a };

// The reasons that every family begins with: an architecture that it does not run on, `features` of
// the problem that it does not have, and head dims other than multiples of 8 from 8 to 256.
std::vector<std::string> common_refusals(std::string_view family, NeededArch needed,
                                         const Problem& problem, const Arch& arch,
                                         const std::vector<std::string>& features);

// The reason of a family all of whose configs are too large for the architecture.
std::string no_config_fits(const Arch& arch);

// The default config of a problem that the family does not refuse.
template <class Config>
Config default_of_accepted(const std::optional<Config>& config) {
  TW_CHECK(config.has_value(), "{} was asked for a default of a problem it refuses",
           Config::family());
  return *config;
}

}  // namespace tilewright
