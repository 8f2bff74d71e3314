#include "runtime/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "core/check.h"
#include "core/files.h"
#include "core/text.h"
#include "generator/include_closure.h"
#include "templates/embedded.h"

namespace tilewright {
namespace {

std::optional<std::string_view> embedded_template(std::string_view path) {
  const std::span<const EmbeddedFile> files = embedded_templates();
  const auto file = std::lower_bound(
      files.begin(), files.end(), path,
      [](const EmbeddedFile& each, std::string_view wanted) { return each.path < wanted; });
  if (file == files.end() || file->path != path) return std::nullopt;
  return file->text();
}

// The number before `unit` in `line`: ("… 12 bytes spill stores", "bytes spill stores") is 12.
std::optional<int64_t> number_before(std::string_view line, std::string_view unit) {
  size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  while (end > 0 && line[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  const Result<int64_t> value = parse_int(line.substr(begin, end - begin));
  if (!value.ok()) return std::nullopt;
  return *value;
}

// What NVRTC put before a name of ours: the current folder, with a slash at its end.
std::string_view folder_before(std::string_view path, const CompileRequest& request) {
  const auto strip = [path](std::string_view name) {
    return path.ends_with(name) ? path.substr(0, path.size() - name.size()) : std::string_view();
  };
  std::string_view folder = strip(stub_name(request.source));
  for (const DeviceHeader& header : request.headers) {
    if (folder.empty()) folder = strip(header.name);
  }
  return folder;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

Result<CompileRequest> make_compile_request(const KernelSource& source, std::string_view target,
                                            const std::string& templates_dir) {
  std::error_code ignored;
  if (!templates_dir.empty() && !std::filesystem::is_directory(templates_dir, ignored)) {
    return make_error(ErrorCode::kNotFound, "there is no folder '{}' to read templates from",
                      templates_dir);
  }
  std::map<std::string, std::string, std::less<>> files_read;
  const auto from_folder = [&](std::string_view path) -> std::optional<std::string_view> {
    const auto known = files_read.find(path);
    if (known != files_read.end()) return known->second;
    Result<std::string> text = read_file(join_path(templates_dir, path));
    if (!text.ok()) return std::nullopt;
    return files_read.emplace(path, *std::move(text)).first->second;
  };
  const auto closure = include_closure(source.template_path, templates_dir.empty()
                                                                 ? TemplateLookup(embedded_template)
                                                                 : TemplateLookup(from_folder));
  if (!closure.ok() && !templates_dir.empty()) {
    return make_error(closure.error().code, "{}, in the folder '{}'", closure.error().message,
                      templates_dir);
  }
  TW_TRY(closure.status());
  CompileRequest request;
  request.source = source;
  request.target = target;
  request.options = {fmt::format("--gpu-architecture={}", target), "--std=c++20",
                     "--device-as-default-execution-space", "--generate-line-info",
                     "--ptxas-options=-v"};
  for (const auto& [name, text] : *closure) request.headers.push_back({name, std::string(text)});
  return request;
}

// ptxas info    : Compiling entry function 'k' for 'sm_80'
// ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// ptxas info    : Used 12 registers, used 1 barriers, 256 bytes smem, 360 bytes cmem[0]
KernelResources parse_ptxas_report(std::string_view log, std::string_view entry_name) {
  KernelResources resources;
  const std::string start = fmt::format("Compiling entry function '{}'", entry_name);
  bool inside = false;
  for (const std::string_view line : split(log, '\n')) {
    if (line.find("Compiling entry function '") != std::string_view::npos) {
      inside = line.find(start) != std::string_view::npos;
    }
    if (!inside) continue;
    if (const auto stack = number_before(line, "bytes stack frame")) {
      resources.stack_bytes = *stack;
      resources.spill_store_bytes = number_before(line, "bytes spill stores").value_or(-1);
      resources.spill_load_bytes = number_before(line, "bytes spill loads").value_or(-1);
    }
    if (const auto registers = number_before(line, "registers")) {
      resources.registers = static_cast<int>(*registers);
      // ptxas leaves out what is zero.
      resources.barriers = static_cast<int>(number_before(line, "barriers").value_or(0));
      resources.static_shared_bytes = number_before(line, "bytes smem").value_or(0);
      return resources;
    }
  }
  return resources;
}

std::string stub_name(const KernelSource& source) {
  return fmt::format("generated/{}.cu", source.family);
}

void hide_current_folder(const CompileRequest& request, CompiledCode& code) {
  constexpr std::string_view kVirtualFolder = "/tilewright/";
  std::string ptx, folder;
  for (std::string_view rest = code.ptx; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);  // npos + 1 = 0: no newline
    const std::string_view whole = line.empty() ? rest : line;
    rest.remove_prefix(whole.size());
    const size_t open = whole.find('"');
    const size_t close = whole.rfind('"');
    if (!trim(whole).starts_with(".file") || open == close) {
      ptx += whole;
      continue;
    }
    const std::string_view path = whole.substr(open + 1, close - open - 1);
    const std::string_view before = folder_before(path, request);
    if (folder.empty()) folder = before;
    ptx += whole.substr(0, open + 1);
    ptx += kVirtualFolder;
    ptx += path.substr(before.empty() ? path.rfind('/') + 1 : before.size());
    ptx += whole.substr(close);
  }
  code.ptx = std::move(ptx);

  if (folder.size() < 2) return;
  const auto hide = [&](std::string_view name) {
    const std::string_view top = name.substr(0, name.find('/'));
    replace_all(code.cubin, fmt::format("{}{}", folder, top),
                fmt::format("{}{}", std::string(folder.size(), '/'), top));
  };
  hide(stub_name(request.source));
  for (const DeviceHeader& header : request.headers) hide(header.name);
}

}  // namespace tilewright
