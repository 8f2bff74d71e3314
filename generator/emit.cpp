// The stub of a kernel: its config and its entry points, never an algorithm.
#include <string_view>
#include <vector>

#include "core/check.h"
#include "generator/family.h"
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

std::string literal(attention::Feature value) {
  return value == attention::Feature::kElu1 ? "Feature::kElu1" : "Feature::kIdentity";
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

// "extern "C" __global__ … tw_forward(…) { forward_sm80_cta<config()>(params); }"
std::string entry_text(const Family& family, const EntryPoint& entry) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({})\n"
      "{}(const __grid_constant__ {} params) {{ {}<config()>(params); }}\n",
      entry.launch_bounds, entry.name, family.params_type, entry.function);
}

}  // namespace

KernelSource emit(const Problem&, const AnyConfig& config) {
  const Family& family = family_of(config);
  KernelSource source;
  source.family = family.name;
  source.template_path = family.template_path;
  source.text = fmt::format(
      "// tilewright {} (generated)\n"
      "#include \"{}\"\n"
      "using namespace tilewright::attention;\n"
      "consteval {} config() {{\n"
      "{}"
      "}}\n",
      to_string(config), family.template_path, family.config_type,
      return_statement(
          std::visit([](const auto& fields) { return initialisers(fields); }, config)));
  for (const EntryPoint& entry : family.entries(config)) {
    source.entry_names.push_back(entry.name);
    source.text += entry_text(family, entry);
  }
  return source;
}

}  // namespace tilewright
