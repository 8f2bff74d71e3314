// The stub of a kernel: its config and an entry point, never an algorithm.
#include <string_view>
#include <vector>

#include "core/check.h"
#include "generator/forward_sm80.h"
#include "generator/generator.h"

namespace tilewright {
namespace {

std::string literal(int value) { return std::to_string(value); }
std::string literal(bool value) { return value ? "true" : "false"; }
std::string literal(attention::Dtype value) {
  using attention::Dtype;
  switch (value) {
    case Dtype::kFloat16:
      return "Dtype::kFloat16";
    case Dtype::kBFloat16:
      return "Dtype::kBFloat16";
    case Dtype::kFloat8E4M3:
      return "Dtype::kFloat8E4M3";
    case Dtype::kFloat8E5M2:
      return "Dtype::kFloat8E5M2";
  }
  TW_CHECK(false, "dtype {}", static_cast<int>(value));
  return {};
}

// ".head_dim_qk = 64" for each field that is not default, in declaration order (NVRTC 13.0 crashes
// on designators out of order).
template <class Config>
std::vector<std::string> initialisers(const Config& config) {
  const Config default_config;
  std::vector<std::string> defaults;
  Config::for_each_field(
      default_config, [&](const char*, const auto& field) { defaults.push_back(literal(field)); });
  std::vector<std::string> result;
  size_t index = 0;
  Config::for_each_field(config, [&](const char* name, const auto& field) {
    std::string text = literal(field);
    if (text != defaults[index++]) result.push_back(fmt::format(".{} = {}", name, text));
  });
  return result;
}

// "  return {a, b,\n          c};", at most 100 columns.
std::string return_statement(const std::vector<std::string>& items) {
  constexpr size_t kColumns = 100;
  std::string line = "  return {";
  const std::string indent(line.size(), ' ');
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "};");
    const bool first = line.back() == '{' || line == indent;
    if (!first && line.size() + 1 + item.size() > kColumns) {
      text += line + "\n";
      line = indent;
    }
    line += (line.back() == '{' || line == indent ? "" : " ") + item;
  }
  return items.empty() ? "  return {};\n" : text + line + "\n";
}

KernelSource emit_family(const attention::ForwardSm80Config& config) {
  KernelSource source;
  source.family = forward_sm80::kName;
  source.template_path = forward_sm80::kTemplatePath;
  source.entry_name = "tw_forward";
  source.text = fmt::format(
      "// tilewright {} (generated)\n"
      "#include \"{}\"\n"
      "using namespace tilewright::attention;\n"
      "consteval ForwardSm80Config config() {{\n"
      "{}"
      "}}\n"
      "extern \"C\" __global__ void __launch_bounds__(config().num_threads(), "
      "config().min_blocks_per_sm)\n"
      "{}(const __grid_constant__ ForwardParams params) {{ forward_sm80_cta<config()>(params); "
      "}}\n",
      to_string(AnyConfig(config)), source.template_path, return_statement(initialisers(config)),
      source.entry_name);
  return source;
}

}  // namespace

KernelSource emit(const Problem&, const AnyConfig& config) {
  return std::visit([](const auto& family_config) { return emit_family(family_config); }, config);
}

}  // namespace tilewright
