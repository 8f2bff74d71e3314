#include <chrono>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "cli/emulator_counters.h"
#include "cli/mask_input.h"
#include "cli/run_input.h"
#include "cli/run_output.h"
#include "cli/run_report.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {
namespace {

// The command that repeats this run; the problem with every dim, and the device, spelt out.
std::string reproducer_of(const RunFlags& flags, const RunInput& input, const Options& options,
                          const DeviceInfo& device) {
  std::vector<std::string> words = {"tilewright", "run", "--check", "--problem",
                                    input.problem.to_string()};
  const auto add = [&](std::string name, const std::string& value) {
    if (value.empty()) return;
    words.push_back(std::move(name));
    words.push_back(value);
  };
  for (const FileFlag& file : flags.files.flags()) add(std::string(file.flag), file.path);
  if (!flags.files.any()) add("--seed", fmt::to_string(flags.seed.value_or(0)));
  if (flags.repeat != 1) add("--repeat", fmt::to_string(flags.repeat));
  // With no device named, a simulated one is emulated:h100; on another machine it may be a GPU.
  const bool default_emulated = options.device.empty() && device.simulated;
  add("--device", default_emulated ? "emulated:h100" : options.device);
  add("--templates", options.templates_dir);
  return shell_command(words);
}

Result<RunInput> read_input(const RunFlags& flags) {
  Problem problem;
  if (!flags.problem.empty() || !flags.files.any()) {
    TW_ASSIGN(problem, parse_problem_flag(flags.problem));
  }
  if (!flags.files.any()) return input_from_problem(std::move(problem));
  if (flags.seed) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--seed has no meaning with tensors from files: none is random");
  }
  return input_from_files(std::move(problem), flags.files);
}

// A result that nobody checks may still be seen to be none.
void warn_not_finite(const Options& options, const std::vector<NotFinite>& counts) {
  if (!options.log) return;
  for (const NotFinite& each : counts) {
    options.log(LogLevel::kWarning, fmt::format("{}: {} of {} values are NaN or infinite",
                                                each.name, each.count, each.of));
  }
}

Result<RunOutcome> execute(const RunFlags& flags) {
  const Options options = make_options(flags.common);
  TW_TRY(check_outputs(flags.outputs.flags(), flags.files.flags()));
  RunOutcome outcome;
  Progress progress("reading the input");
  TW_ASSIGN(outcome.input, read_input(flags));
  RunInput& input = outcome.input;
  TW_TRY(check_pass(input.problem, flags.outputs));
  TW_TRY(check_host_memory(input, flags.check));

  // What files hold is checked before a kernel is made for it.
  if (flags.files.any()) TW_TRY(read_mask_data(flags.files, input));

  progress.set_label("preparing the kernel");
  TW_ASSIGN(const std::unique_ptr<Session> session, Session::open(options));
  outcome.device = session->device();
  outcome.reproducer = reproducer_of(flags, input, options, outcome.device);
  TW_ASSIGN(outcome.kernel, session->prepare(input.problem));
  outcome.cache = session->cache_counters();

  if (!flags.files.any()) {
    input.tensors = random_inputs(input.problem, input.sizes, flags.seed.value_or(0));
    TW_TRY(read_mask_data(flags.files, input));
  }
  TW_TRY(complete_inputs(input.problem, input.sizes, input.tensors));
  const bool count = flags.counters && outcome.device.simulated;
  if (count) TW_TRY(reset_emulator_counters());
  progress.set_label("running on " + outcome.device.name);
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN(outcome.outputs, run_trial(*session, *outcome.kernel, input.sizes, input.tensors,
                                       {.repeat = static_cast<int>(flags.repeat)}));
  outcome.host_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (count) {
    TW_ASSIGN(outcome.counters, emulator_counters());
  }
  Result<Verdict> verdict = Verdict();
  if (flags.check) {
    progress.set_label("computing the fp64 reference");
    verdict = verify(input.problem, input.sizes, input.tensors, outcome.outputs);
  }
  clear_rows_of_no_sequence(input.problem, input.tensors, outcome.outputs);
  outcome.not_finite = count_not_finite(outcome.outputs);
  warn_not_finite(options, outcome.not_finite);
  TW_TRY(write_outputs(flags.outputs, input.problem, outcome.outputs));
  TW_TRY(verdict.status());
  if (flags.check) outcome.verdict = *std::move(verdict);
  return outcome;
}

void add_input_flags(ArgumentParser& parser, InputFiles& files) {
  parser.group(
      "Input files (.npy; float16, float32 to be rounded, uint16 for bf16, uint8 for fp8)");
  parser.text("q", "FILE", "queries [batch, seqlen, heads, dim], or as --problem's layout says",
              files.q);
  parser.text("k", "FILE",
              "keys; varlen: [total, heads, dim], as q; paged: [pages, page, heads, dim]", files.k);
  parser.text("v", "FILE", "values, as k", files.v);
  parser.text("dout", "FILE", "gradient of the output, for the pass backward", files.dout);
  parser.text("state", "FILE", "linear passes: float32 [batch, kv heads, dim, v dim] (else 0)",
              files.state);
  parser.text("normalizer", "FILE", "and float32 [batch, kv heads, dim], of feature=elu1",
              files.normalizer);
  parser.text("cu-seqlens-q", "FILE", "varlen: int32 [batch + 1], where each sequence begins",
              files.cu_seqlens_q);
  parser.text("cu-seqlens-k", "FILE", "the same of keys, unless they are paged",
              files.cu_seqlens_k);
  parser.text("block-table", "FILE", "paged: int32 [batch, pages of a sequence], page numbers",
              files.block_table);
  parser.text("seqused-k", "FILE", "paged: int32 [batch], the keys of each sequence",
              files.seqused_k);
  parser.text("blocks", "FILE",
              "of blocks=b: uint8 [q / b, k / b], or with batch and heads (else random)",
              files.blocks);
  parser.text("documents", "FILE",
              "of documents: int32 [batch, seqlen_k], packed [total_k]: ids (else random)",
              files.documents);
}

void add_output_flags(ArgumentParser& parser, OutputFiles& files) {
  parser.group("Output files (.npy)");
  parser.text("out", "FILE", "the output, as q", files.out);
  parser.text("lse", "FILE", "log-sum-exp, float32 [batch, heads, seqlen]; varlen: [heads, total]",
              files.lse);
  parser.text("dq", "FILE", "gradient of the queries", files.dq);
  parser.text("dk", "FILE", "gradient of the keys", files.dk);
  parser.text("dv", "FILE", "gradient of the values", files.dv);
  parser.text("state-out", "FILE", "linear passes: the state after the last key, as --state",
              files.state_out);
  parser.text("normalizer-out", "FILE", "and its normalizer", files.normalizer_out);
}

void add_flags(ArgumentParser& parser, RunFlags& flags) {
  parser.text("problem", "TEXT", "what to compute; may be left out with --q, --k and --v",
              flags.problem);
  parser.flag("check", "compare with the fp64 reference", flags.check);
  parser.unsigned_integer("seed", "N", "of the random tensors (default 0); not with files",
                          flags.seed);
  parser.integer("repeat", "N", "runs, which must agree to the bit (default 1)", 1, 1000000,
                 flags.repeat);
  parser.flag("counters", "print the instructions an emulated device executed", flags.counters);
  add_device_flag(parser, flags.common);
  add_json_flag(parser, flags.common);
  add_input_flags(parser, flags.files);
  add_output_flags(parser, flags.outputs);
  add_runtime_flags(parser, flags.common);
  parser.example("tilewright run --check --problem \"b2 hq6 hkv2 q129 k257 qk80 v48 bf16 causal\"");
  parser.example("tilewright run --q q.npy --k k.npy --v v.npy --out o.npy");
  parser.example(
      "tilewright run --problem \"varlen bf16 causal\" --q q.npy --k k.npy --v v.npy --out o.npy "
      "\\\n    --cu-seqlens-q cu.npy --cu-seqlens-k cu.npy");
}

}  // namespace

int run_run(Words words) {
  RunFlags flags;
  ArgumentParser parser("run",
                        "Computes attention of .npy files or seeded random tensors on a GPU, real "
                        "or emulated.");
  add_flags(parser, flags);
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const Result<RunOutcome> outcome = execute(flags);
  if (!outcome.ok()) return report_error("run", outcome.error(), flags.common.json);
  if (flags.common.json) {
    print_json(run_json(flags, *outcome));
  } else {
    print_text(run_text(flags, *outcome));
  }
  return outcome->passed() ? kSuccess : kFailure;
}

}  // namespace tilewright::cli
