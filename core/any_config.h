// AnyConfig: the host side of the kernel families' configs, one variant over them all, and its
// text form. A config's own family() and field list say everything else.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "templates/attention/config/backward_sm80.h"
#include "templates/attention/config/forward_sm80.h"
#include "templates/attention/config/forward_sm90.h"
#include "templates/attention/config/linear.h"
#include "templates/attention/config/standard.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

using AnyConfig = std::variant<attention::ForwardSm80Config, attention::StandardConfig,
                               attention::LinearForwardConfig, attention::LinearStepConfig,
                               attention::BackwardSm80Config, attention::ForwardSm90Config>;

// "forward_sm80"
std::string_view family_name(const AnyConfig& config);
// "forward_sm80 head_dim_qk=64 row_range=true": family, then only the fields that are not default,
// in the order of the config's field list. parse_config(to_string(c)) == c.
std::string to_string(const AnyConfig& config);
// kParseError quotes the offending token.
Result<AnyConfig> parse_config(std::string_view text);

// Only for the input types of attention (not fp32, int32).
attention::Dtype to_device_dtype(Dtype dtype);
// "fp16", … as in Problem's text.
std::string_view to_string(attention::Dtype dtype);
// "identity", "elu1"
std::string_view to_string(attention::Feature feature);

}  // namespace tilewright
