// AnyConfig: the host side of the kernel families' configs, one variant over them all.
#pragma once

#include <string>
#include <variant>

#include "templates/attention/config.h"
#include "tilewright/problem.h"

namespace tilewright {

using AnyConfig = std::variant<attention::ForwardSm80Config>;

// "forward_sm80 qk128 … tile_m=128 stages=2": family, then only the fields that are not default.
std::string to_string(const AnyConfig& config);
Result<AnyConfig> parse_config(std::string_view text);

attention::Dtype to_device_dtype(Dtype dtype);

}  // namespace tilewright
