#include "tests/hopper_kernels/generated_subject.h"

#include <fmt/format.h>

#include <variant>

#include "autotune/trial.h"
#include "core/any_config.h"
#include "core/check.h"
#include "generator/family.h"
#include "generator/generator.h"
#include "runtime/kernel_state.h"
#include "runtime/session_access.h"
#include "tests/hopper_kernels/compile.h"
#include "tests/hopper_kernels/device.h"

namespace tilewright::hopper_kernels {
namespace {

constexpr uint64_t kDataSeed = 20261202;

template <class T>
T value_of(Result<T> result) {
  TW_CHECK(result.ok(), "{}", result.error().to_string());
  return *std::move(result);
}

// A trial that did not come to its end: the emulator's report is among the reasons, unless memory
// outside the outputs was changed.
Outcome outcome_of(const Error& error) {
  if (error.reasons.empty()) return {Verdict::kWrong, error.message};
  const std::string& report = error.reasons.back();
  return {verdict_of_report(report), report};
}

class GeneratedSubject final : public Subject {
 public:
  GeneratedSubject(std::string name, const std::string& problem, const std::string& config)
      : name_(std::move(name)),
        problem_(value_of(Problem::parse(problem))),
        config_(value_of(parse_config(config))),
        source_(emit(problem_, config_)),
        sizes_(value_of(trial_sizes(problem_))),
        inputs_(random_inputs(problem_, sizes_, kDataSeed)) {}

  std::string name() const override { return name_; }

  SlotLayout layout() const override {
    const auto& config = std::get<attention::ForwardSm90Config>(config_);
    TW_CHECK(config.k_bytes() == config.v_bytes(), "{}: slots of two sizes", name_);
    return {32, config.k_bytes()};
  }

  Result<CompiledCode> compile() const override {
    return compile_kernel(source_.template_path, source_.entry_names.at(0), source_.text);
  }

  Outcome run(const std::string& ptx, const Schedule& schedule) const override {
    apply_settings(schedule);
    const auto session = value_of(Session::open({.device = "emulated:h100"}));
    const Result<Kernel> kernel = load(SessionAccess::device(*session), ptx);
    if (!kernel.ok()) return {Verdict::kRefused, kernel.error().to_string()};
    const Result<TrialOutputs> outputs =
        run_trial(*session, *kernel, sizes_, inputs_, {.gaps = true});
    if (!outputs.ok()) return outcome_of(outputs.error());
    const auto verdict = value_of(verify(problem_, sizes_, inputs_, *outputs));
    return verdict.ok() ? Outcome{} : Outcome{Verdict::kWrong, verdict.detail()};
  }

 private:
  // The kernel that a session would prepare, but of this PTX.
  Result<Kernel> load(const tilewright::Device& device, const std::string& ptx) const {
    Binary binary;
    binary.family = source_.family;
    binary.target = device.target();
    binary.entry_names = source_.entry_names;
    binary.source = source_.text;
    binary.code.ptx = ptx;
    binary.code.resources.resize(source_.entry_names.size());  // unknown
    Kernel::State state;
    state.device = device.shared_from_this();
    state.binary = std::make_shared<const Binary>(std::move(binary));
    state.problem = problem_;
    state.config = config_;
    state.provenance = "given";
    std::vector<int64_t> shared_bytes;
    for (const EntryPoint& entry : family_of(config_).entries(config_)) {
      shared_bytes.push_back(entry.shared_bytes);
    }
    TW_ASSIGN(state.module, device.load(*state.binary, shared_bytes));
    for (size_t i = 0; i < source_.entry_names.size(); ++i) {
      state.entries.push_back({source_.entry_names[i], {}, state.module->functions().at(i)});
    }
    return Kernel(std::make_shared<const Kernel::State>(std::move(state)));
  }

  std::string name_;
  Problem problem_;
  AnyConfig config_;
  KernelSource source_;
  reference::Sizes sizes_;
  TrialTensors inputs_;
};

}  // namespace

std::unique_ptr<Subject> make_generated(std::string name, const std::string& problem,
                                        const std::string& config) {
  return std::make_unique<GeneratedSubject>(std::move(name), problem, config);
}

}  // namespace tilewright::hopper_kernels
