#include "tests/hopper_kernels/compile.h"

#include "core/check.h"
#include "generator/include_closure.h"
#include "runtime/nvrtc.h"
#include "templates/embedded.h"

namespace tilewright::hopper_kernels {
namespace {

#include "hopper_kernels.inc"  // k_hopper_kernels, written by tw_embed_files

std::optional<std::string_view> embedded_file(std::string_view path) {
  for (const EmbeddedFile& file : k_hopper_kernels) {
    if (file.path == path) return file.text();
  }
  for (const EmbeddedFile& file : embedded_templates()) {
    if (file.path == path) return file.text();
  }
  return std::nullopt;
}

}  // namespace

Result<CompiledCode> compile_kernel(std::string_view root, std::string_view entry_name,
                                    std::string_view text) {
  TW_ASSIGN(const NvrtcLocation location, find_nvrtc({.origin = origin_folder()}));
  TW_ASSIGN(const auto closure, include_closure(root, embedded_file));
  CompileRequest request;
  request.source = {.family = std::string(entry_name),
                    .template_path = std::string(root),
                    .entry_names = {std::string(entry_name)},
                    .text = std::string(text)};
  request.target = "sm_90a";
  request.options = {"--gpu-architecture=sm_90a", "--std=c++20",
                     "--device-as-default-execution-space", "--generate-line-info",
                     "--ptxas-options=-v"};
  for (const auto& [name, content] : closure) {
    request.headers.push_back({name, std::string(content)});
  }
  return Nvrtc(location).compile(request);
}

}  // namespace tilewright::hopper_kernels
