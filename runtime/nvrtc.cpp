#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {

// X(member, exported name): the functions that are used, all of them in NVRTC 12.0.
#define TW_NVRTC_SYMBOLS(X)                   \
  X(get_error_string, nvrtcGetErrorString)    \
  X(get_version, nvrtcVersion)                \
  X(get_num_archs, nvrtcGetNumSupportedArchs) \
  X(get_archs, nvrtcGetSupportedArchs)        \
  X(create_program, nvrtcCreateProgram)       \
  X(destroy_program, nvrtcDestroyProgram)     \
  X(compile_program, nvrtcCompileProgram)     \
  X(get_ptx_size, nvrtcGetPTXSize)            \
  X(get_ptx, nvrtcGetPTX)                     \
  X(get_cubin_size, nvrtcGetCUBINSize)        \
  X(get_cubin, nvrtcGetCUBIN)                 \
  X(get_log_size, nvrtcGetProgramLogSize)     \
  X(get_log, nvrtcGetProgramLog)

struct Nvrtc::Library {
#define TW_DECLARE_MEMBER(member, name) decltype(&::name) member = nullptr;
  TW_NVRTC_SYMBOLS(TW_DECLARE_MEMBER)
#undef TW_DECLARE_MEMBER
  std::string version;
  std::vector<int> archs;  // 75, 80, …
};

namespace {

// "sm_90a" -> 90; 0 if it is no such name.
int arch_number(std::string_view target) {
  if (!target.starts_with("sm_")) return 0;
  const std::string_view digits = target.substr(3, target.find_last_of("0123456789") - 2);
  const Result<int64_t> number = parse_int(digits);
  return number.ok() && *number < 10000 ? static_cast<int>(*number) : 0;
}

// Lines `line` - 2 … `line` + 2 of a text, numbered, the one in question marked.
std::string numbered_lines(std::string_view text, int64_t line) {
  constexpr int64_t kAround = 2;
  const std::vector<std::string_view> lines = split(text, '\n');
  std::string out;
  for (int64_t i = std::max<int64_t>(1, line - kAround);
       i <= std::min<int64_t>(line + kAround, static_cast<int64_t>(lines.size())); ++i) {
    out +=
        fmt::format("\n  {}{:5} | {}", i == line ? '>' : ' ', i, lines[static_cast<size_t>(i - 1)]);
  }
  return out;
}

// A diagnostic's place: "generated/forward_sm80.cu(3): error: …".
struct Place {
  std::string name;
  int64_t line = 0;
  auto operator<=>(const Place&) const = default;
};

std::optional<Place> place_of(std::string_view log_line) {
  const size_t close = log_line.find("): error");
  const size_t fatal = log_line.find("): catastrophic error");
  const size_t end = std::min(close, fatal);
  if (end == std::string_view::npos) return std::nullopt;
  const size_t open = log_line.rfind('(', end);
  if (open == std::string_view::npos) return std::nullopt;
  const Result<int64_t> line = parse_int(log_line.substr(open + 1, end - open - 1));
  if (!line.ok()) return std::nullopt;
  return Place{std::string(log_line.substr(0, open)), *line};
}

// The source around every place that the log complains of, each once.
std::vector<std::string> excerpts(std::string_view log, const CompileRequest& request) {
  std::vector<std::string> found;
  std::set<Place> seen;
  for (const std::string_view line : split(log, '\n')) {
    const std::optional<Place> place = place_of(line);
    if (!place || !seen.insert(*place).second) continue;
    const auto add = [&](std::string_view name, std::string_view text) {
      if (!std::string_view(place->name).ends_with(name)) return;
      found.push_back(
          fmt::format("{}:{}:{}", name, place->line, numbered_lines(text, place->line)));
    };
    add(stub_name(request.source), request.source.text);
    for (const DeviceHeader& header : request.headers) add(header.name, header.text);
  }
  return found;
}

}  // namespace

// Owns one nvrtcProgram.
class Nvrtc::Program {
 public:
  Program(const Library& nvrtc, const CompileRequest& request) : nvrtc_(nvrtc) {
    std::vector<const char*> names, texts;
    for (const DeviceHeader& header : request.headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    const nvrtcResult result = nvrtc_.create_program(
        &program_, request.source.text.c_str(), stub_name(request.source).c_str(),
        static_cast<int>(names.size()), texts.data(), names.data());
    TW_CHECK(result == NVRTC_SUCCESS, "nvrtcCreateProgram: {}", nvrtc_.get_error_string(result));
  }
  ~Program() { nvrtc_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcProgram get() const { return program_; }

  // Empty where NVRTC has none.
  template <class GetSize, class GetBytes>
  std::string bytes(GetSize get_size, GetBytes get_bytes) const {
    size_t size = 0;
    if (get_size(program_, &size) != NVRTC_SUCCESS) return {};
    std::string out(size, '\0');
    return get_bytes(program_, out.data()) == NVRTC_SUCCESS ? out : std::string();
  }

  // The same without the NUL at its end.
  template <class GetSize, class GetBytes>
  std::string text(GetSize get_size, GetBytes get_bytes) const {
    std::string out = bytes(get_size, get_bytes);
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }

 private:
  const Library& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// NVRTC opens its built-ins by bare name at the first compile and has no run path, so that outside
// the loader's folders (a wheel unpacked somewhere) it would not find what lies beside it. A
// library that is loaded already is found by its name. Where it is missing, NVRTC itself says so.
static void load_builtins(const std::string& nvrtc_path, std::string_view version) {
  const size_t slash = nvrtc_path.rfind('/');
  if (slash == std::string::npos) return;  // the loader found NVRTC, and so it will this
  const std::string path =
      fmt::format("{}/libnvrtc-builtins.so.{}", nvrtc_path.substr(0, slash), version);
  (void)dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed, as NVRTC
}

Nvrtc::Nvrtc(NvrtcLocation location) : location_(std::move(location)) {}
Nvrtc::~Nvrtc() = default;

bool Nvrtc::loaded() const {
  const std::lock_guard lock(mutex_);
  return library_ != nullptr;
}

Result<std::string> Nvrtc::version() {
  TW_ASSIGN(const Library* nvrtc, library());
  return nvrtc->version;
}

Result<const Nvrtc::Library*> Nvrtc::library() {
  const std::lock_guard lock(mutex_);
  if (library_ != nullptr) return library_.get();
  // Never closed: NVRTC keeps threads and state that do not expect it.
  void* handle = dlopen(location_.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return make_error(ErrorCode::kCompilerUnavailable, "cannot load NVRTC: {}", dlerror());
  }
  auto loaded = std::make_unique<Library>();
#define TW_FILL_MEMBER(member, name)                                                     \
  loaded->member = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));            \
  if (loaded->member == nullptr) {                                                       \
    return make_error(ErrorCode::kCompilerUnavailable, "'{}' lacks the function " #name, \
                      location_.path);                                                   \
  }
  TW_NVRTC_SYMBOLS(TW_FILL_MEMBER)
#undef TW_FILL_MEMBER
  int major = 0, minor = 0, num_archs = 0;
  loaded->get_version(&major, &minor);
  loaded->version = fmt::format("{}.{}", major, minor);
  load_builtins(location_.path, loaded->version);
  if (loaded->get_num_archs(&num_archs) == NVRTC_SUCCESS && num_archs > 0) {
    loaded->archs.resize(static_cast<size_t>(num_archs));
    if (loaded->get_archs(loaded->archs.data()) != NVRTC_SUCCESS) loaded->archs.clear();
  }
  library_ = std::move(loaded);
  return library_.get();
}

Result<CompiledCode> Nvrtc::compile(const CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN(const Library* nvrtc, library());
  const std::string about = fmt::format("NVRTC {} at '{}' with options {}", nvrtc->version,
                                        location_.path, join(request.options, " "));
  const int arch = arch_number(request.target);
  if (std::find(nvrtc->archs.begin(), nvrtc->archs.end(), arch) == nvrtc->archs.end()) {
    return make_error(ErrorCode::kCompileError,
                      "{} does not know the target {}; it knows the compute capabilities {}", about,
                      request.target, fmt::join(nvrtc->archs, ", "));
  }

  const Program program(*nvrtc, request);
  std::vector<const char*> options;
  for (const std::string& option : request.options) options.push_back(option.c_str());
  const nvrtcResult result =
      nvrtc->compile_program(program.get(), static_cast<int>(options.size()), options.data());
  CompiledCode code;
  code.log = program.text(nvrtc->get_log_size, nvrtc->get_log);
  if (result != NVRTC_SUCCESS) {
    Error error = make_error(ErrorCode::kCompileError, "{} refused the kernel: {}", about,
                             nvrtc->get_error_string(result));
    error.reasons = excerpts(code.log, request);
    error.reasons.push_back("log:\n" + code.log);
    return error;
  }
  code.ptx = program.text(nvrtc->get_ptx_size, nvrtc->get_ptx);
  code.cubin = program.bytes(nvrtc->get_cubin_size, nvrtc->get_cubin);
  if (code.ptx.empty() || code.cubin.empty()) {
    return make_error(ErrorCode::kCompileError, "{} gave {} bytes of PTX and {} of cubin", about,
                      code.ptx.size(), code.cubin.size());
  }
  hide_current_folder(request, code);
  for (const std::string& name : request.source.entry_names) {
    code.resources.push_back(parse_ptxas_report(code.log, name));
  }
  code.compiler_version = "NVRTC " + nvrtc->version;
  code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return code;
}

}  // namespace tilewright
