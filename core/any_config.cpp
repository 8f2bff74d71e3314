#include "core/any_config.h"

#include <array>
#include <type_traits>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {
namespace {

std::string value_text(int value) { return std::to_string(value); }
std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(attention::Dtype value) { return std::string(to_string(value)); }
std::string value_text(attention::Feature value) { return std::string(to_string(value)); }

Status parse_value(std::string_view text, int& value) {
  TW_ASSIGN(const int64_t parsed, parse_int(text));
  if (parsed < INT32_MIN || parsed > INT32_MAX) {
    return make_error(ErrorCode::kParseError, "'{}' does not fit in 32 bits", text);
  }
  value = static_cast<int>(parsed);
  return {};
}

Status parse_value(std::string_view text, bool& value) {
  if (text != "true" && text != "false") {
    return make_error(ErrorCode::kParseError, "'{}' is neither true nor false", text);
  }
  value = text == "true";
  return {};
}

Status parse_value(std::string_view text, attention::Dtype& value) {
  using attention::Dtype;
  for (const Dtype dtype :
       {Dtype::kFloat16, Dtype::kBFloat16, Dtype::kFloat8E4M3, Dtype::kFloat8E5M2}) {
    if (to_string(dtype) == text) {
      value = dtype;
      return {};
    }
  }
  return make_error(ErrorCode::kParseError, "'{}' is not the input type of a kernel", text);
}

Status parse_value(std::string_view text, attention::Feature& value) {
  for (const attention::Feature feature :
       {attention::Feature::kIdentity, attention::Feature::kElu1}) {
    if (to_string(feature) == text) {
      value = feature;
      return {};
    }
  }
  return make_error(ErrorCode::kParseError, "'{}' is not a feature map of a kernel", text);
}

template <class Config>
std::string print(const Config& config) {
  std::string text(Config::family());
  std::vector<std::string> defaults;
  const Config default_config;
  Config::for_each_field(default_config, [&](const char*, const auto& field) {
    defaults.push_back(value_text(field));
  });
  size_t index = 0;
  Config::for_each_field(config, [&](const char* name, const auto& field) {
    const std::string value = value_text(field);
    if (value != defaults[index++]) text += fmt::format(" {}={}", name, value);
  });
  return text;
}

template <class Config>
Status parse_field(std::string_view token, Config& config) {
  const size_t equals = token.find('=');
  if (equals == std::string_view::npos) {
    return make_error(ErrorCode::kParseError, "'{}': expected field=value", token);
  }
  const std::string_view key = token.substr(0, equals);
  bool found = false;
  Status status;
  Config::for_each_field(config, [&](const char* name, auto& field) {
    if (key != name) return;
    found = true;
    status = parse_value(token.substr(equals + 1), field);
  });
  if (!found) {
    return make_error(ErrorCode::kParseError, "'{}': {} has no field '{}'", token, Config::family(),
                      key);
  }
  if (!status.ok()) {
    return make_error(ErrorCode::kParseError, "'{}': {}", token, status.error().message);
  }
  return {};
}

template <class Config>
Status parse_fields(const std::vector<std::string_view>& tokens, Config& config) {
  for (size_t i = 1; i < tokens.size(); ++i) TW_TRY(parse_field(tokens[i], config));
  return {};
}

// A default config of each family.
template <class... Configs>
std::array<AnyConfig, sizeof...(Configs)> one_of_each(const std::variant<Configs...>&) {
  return {AnyConfig(Configs{})...};
}

}  // namespace

std::string_view family_name(const AnyConfig& config) {
  return std::visit(
      []<class Config>(const Config&) -> std::string_view { return Config::family(); }, config);
}

std::string to_string(const AnyConfig& config) {
  return std::visit([](const auto& alternative) { return print(alternative); }, config);
}

Result<AnyConfig> parse_config(std::string_view text) {
  const std::vector<std::string_view> tokens = split(text, ' ');
  std::vector<std::string_view> known;
  for (AnyConfig any : one_of_each(AnyConfig())) {
    known.push_back(family_name(any));
    if (known.back() != tokens[0]) continue;
    TW_TRY(std::visit([&](auto& config) { return parse_fields(tokens, config); }, any));
    return any;
  }
  return make_error(ErrorCode::kParseError, "'{}' is not a kernel family; known: {}", tokens[0],
                    fmt::join(known, ", "));
}

attention::Dtype to_device_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return attention::Dtype::kFloat16;
    case Dtype::kBFloat16:
      return attention::Dtype::kBFloat16;
    case Dtype::kFloat8E4M3:
      return attention::Dtype::kFloat8E4M3;
    case Dtype::kFloat8E5M2:
      return attention::Dtype::kFloat8E5M2;
    case Dtype::kFloat32:
    case Dtype::kInt32:
      break;
  }
  TW_CHECK(false, "{} is not the input type of a kernel", to_string(dtype));
  return {};
}

std::string_view to_string(attention::Dtype dtype) {
  switch (dtype) {
    case attention::Dtype::kFloat16:
      return to_string(Dtype::kFloat16);
    case attention::Dtype::kBFloat16:
      return to_string(Dtype::kBFloat16);
    case attention::Dtype::kFloat8E4M3:
      return to_string(Dtype::kFloat8E4M3);
    case attention::Dtype::kFloat8E5M2:
      return to_string(Dtype::kFloat8E5M2);
  }
  TW_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return {};
}

std::string_view to_string(attention::Feature feature) {
  return feature == attention::Feature::kElu1 ? "elu1" : "identity";
}

}  // namespace tilewright
