#include "tilewright/session.h"

#include <fmt/format.h>

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/check.h"
#include "core/threads.h"
#include "generator/family.h"
#include "generator/generator.h"
#include "runtime/cache.h"
#include "runtime/device.h"
#include "runtime/kernel_state.h"
#include "runtime/nvrtc.h"
#include "runtime/offline.h"
#include "runtime/once_per_key.h"
#include "runtime/session_access.h"

namespace tilewright {
namespace {

// Equality compares everything; the hash needs only what usually differs.
struct ProblemHash {
  size_t operator()(const Problem& problem) const {
    uint64_t hash = 0;
    const auto mix = [&hash](uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio: spreads small numbers
      hash ^= hash >> 29;
    };
    const auto mix_dim = [&mix](const std::optional<int64_t>& dim) {
      mix(static_cast<uint64_t>(dim.value_or(-1)));
    };
    mix(static_cast<uint64_t>(problem.pass));
    mix_dim(problem.batch);
    mix_dim(problem.num_heads_q);
    mix_dim(problem.num_heads_kv);
    mix_dim(problem.seqlen_q);
    mix_dim(problem.seqlen_k);
    mix_dim(problem.head_dim_qk);
    mix_dim(problem.head_dim_v);
    mix(problem.dtype ? static_cast<uint64_t>(*problem.dtype) : ~uint64_t{0});
    mix(problem.masks.size());
    return hash;
  }
};

// Every kernel that was asked for, by the question: the fast way through prepare().
class PreparedKernels {
 public:
  std::optional<Kernel> find(const Problem& problem) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return std::nullopt;
    return found->second;
  }
  // The first of two threads wins, so that both hold the same kernel.
  Kernel keep(const Problem& problem, Kernel kernel) {
    const std::unique_lock lock(mutex_);
    return kernels_.emplace(problem, std::move(kernel)).first->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Problem, Kernel, ProblemHash> kernels_;
};

}  // namespace

struct Session::Impl {
  Impl(const Options& given, std::shared_ptr<const Device> opened)
      : options(given),
        device(std::move(opened)),
        cache(options.cache_dir, options.cache_max_bytes, options.log) {}

  Result<CacheResult> get_or_compile(const KernelSource& source);
  Result<Kernel> load(const CacheResult& compiled, const Problem& problem, const Choice& choice);
  // Found at the first prepare, so that a session opens where there is none.
  Result<Compiler*> compiler();

  const Options options;
  const std::shared_ptr<const Device> device;
  KernelCache cache;
  PreparedKernels kernels;
  OncePerKey<std::shared_ptr<const Module>> modules;  // by cache key
  std::atomic<int64_t> memory_hits{0};
  mutable std::mutex compiler_mutex;
  std::unique_ptr<Nvrtc> nvrtc;
};

// The main path. Problem -> config -> source text -> binary -> kernel.
Result<Kernel> Session::prepare(const Problem& problem) {
  TW_TRY(impl_->device->check_process());
  if (std::optional<Kernel> known = impl_->kernels.find(problem)) {
    ++impl_->memory_hits;
    return *std::move(known);
  }
  TW_TRY(validate(problem));
  TW_ASSIGN(const Choice choice, choose_config(problem, impl_->device->arch()));
  const KernelSource source = emit(problem, choice.config);
  TW_ASSIGN(const CacheResult compiled, impl_->get_or_compile(source));
  TW_ASSIGN(Kernel kernel, impl_->load(compiled, problem, choice));
  return impl_->kernels.keep(problem, std::move(kernel));
}

Result<std::unique_ptr<Session>> Session::open(const Options& options) {
  TW_ASSIGN(std::shared_ptr<const Device> device, Device::open(options.device));
  return std::unique_ptr<Session>(new Session(std::make_unique<Impl>(options, std::move(device))));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Status Session::prefetch(std::span<const Problem> problems, int jobs,
                         const std::function<void(int64_t, int64_t)>& progress) {
  const auto total = static_cast<int64_t>(problems.size());
  std::mutex mutex;
  int64_t done = 0;
  std::vector<std::string> failures;
  parallel_for(total, jobs, [&](int64_t index, int) {
    const Problem& problem = problems[static_cast<size_t>(index)];
    const Result<Kernel> kernel = prepare(problem);
    const std::lock_guard lock(mutex);
    if (!kernel.ok()) {
      failures.push_back(fmt::format("{}: {}", problem.to_string(), kernel.error().to_string()));
    }
    ++done;
    if (progress) progress(done, total);
  });
  if (failures.empty()) return {};
  Error error = make_error(ErrorCode::kCompileError, "{} of {} kernels could not be prepared",
                           failures.size(), total);
  error.reasons = std::move(failures);
  return error;
}

Result<Compiler*> Session::Impl::compiler() {
  const std::lock_guard lock(compiler_mutex);
  if (nvrtc == nullptr) {
    TW_ASSIGN(NvrtcLocation location, nvrtc_for(options, device->driver_version() / 1000));
    nvrtc = std::make_unique<Nvrtc>(std::move(location));
  }
  return static_cast<Compiler*>(nvrtc.get());
}

Result<CacheResult> Session::Impl::get_or_compile(const KernelSource& source) {
  TW_ASSIGN(const CompileRequest request,
            make_compile_request(source, device->target(), options.templates_dir));
  TW_ASSIGN(Compiler* const nvrtc_compiler, compiler());
  return cache.get_or_compile(request, *nvrtc_compiler);
}

Result<Kernel> Session::Impl::load(const CacheResult& compiled, const Problem& problem,
                                   const Choice& choice) {
  const Binary& binary = *compiled.binary;
  bool found = false;
  TW_ASSIGN(std::shared_ptr<const Module> module, modules.get(binary.key, &found, [&] {
    std::vector<int64_t> shared_bytes;
    for (const EntryPoint& entry : family_of(choice.config).entries(choice.config)) {
      shared_bytes.push_back(entry.shared_bytes);
    }
    return device->load(binary, shared_bytes);
  }));
  std::vector<KernelEntry> entries;
  for (size_t i = 0; i < binary.entry_names.size(); ++i) {
    entries.push_back(
        {binary.entry_names[i], binary.code.resources.at(i), module->functions().at(i)});
  }
  return Kernel(
      std::make_shared<const Kernel::State>(Kernel::State{.device = device,
                                                          .module = std::move(module),
                                                          .entries = std::move(entries),
                                                          .binary = compiled.binary,
                                                          .origin = compiled.origin,
                                                          .problem = problem,
                                                          .config = choice.config,
                                                          .provenance = choice.provenance}));
}

DeviceInfo Session::device() const { return impl_->device->info(); }

CacheCounters Session::cache_counters() const {
  CacheCounters counters = impl_->cache.counters();
  counters.memory_hits += impl_->memory_hits;
  return counters;
}

Result<void*> Session::allocate(int64_t bytes) { return impl_->device->allocate(bytes); }
Status Session::release(void* pointer) { return impl_->device->release(pointer); }
Status Session::copy_in(void* device, const void* host, int64_t bytes) {
  return impl_->device->copy_in(device, host, bytes);
}
Status Session::copy_out(void* host, const void* device, int64_t bytes) {
  return impl_->device->copy_out(host, device, bytes);
}
Status Session::synchronize() { return impl_->device->synchronize(); }

const Device& SessionAccess::device(const Session& session) { return *session.impl_->device; }

Result<Kernel> SessionAccess::prepare_with_config(Session& session, const Problem& problem,
                                                  const AnyConfig& config) {
  Session::Impl& impl = *session.impl_;
  TW_TRY(impl.device->check_process());
  TW_TRY(validate(problem));
  const Choice choice{config, "given", {}};
  TW_ASSIGN(const CacheResult compiled, impl.get_or_compile(emit(problem, config)));
  return impl.load(compiled, problem, choice);
}

bool SessionAccess::compiler_loaded(const Session& session) {
  const std::lock_guard lock(session.impl_->compiler_mutex);
  return session.impl_->nvrtc != nullptr && session.impl_->nvrtc->loaded();
}

Result<NvrtcLocation> nvrtc_for(const Options& options, int driver_major) {
  return find_nvrtc(
      {.path = options.nvrtc_path, .driver_major = driver_major, .origin = origin_folder()});
}

Result<CacheResult> compile_offline(const Options& options, const Problem& problem,
                                    const AnyConfig& config, std::string_view target) {
  TW_TRY(validate(problem));
  TW_ASSIGN(const CompileRequest request,
            make_compile_request(emit(problem, config), target, options.templates_dir));
  TW_ASSIGN(NvrtcLocation location, nvrtc_for(options, 0));
  Nvrtc nvrtc(std::move(location));
  KernelCache cache(options.cache_dir, options.cache_max_bytes, options.log);
  return cache.get_or_compile(request, nvrtc);
}

}  // namespace tilewright
