// A trial: one problem run once on a device with tensors laid out to catch mistakes (poisoned
// outputs, NaN in every gap, guard bytes around each tensor), and compared with the fp64 reference.
// The command line's `run`, the tests and the tuner share it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/attention.h"
#include "reference/error_bound.h"
#include "reference/linear_bound.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/session.h"

namespace tilewright {

// The sizes of a problem with absent dims filled: b 1, hq 1, hkv = hq, v = qk, k = q. q and qk are
// required; kInvalidArgument names what is missing.
Result<reference::Sizes> trial_sizes(const Problem& problem);

// The values of a trial's tensors, by the names of LaunchTensors; those that the pass does not have
// are empty. Contiguous [batch, rows, heads, dim], lse [batch, num_heads_q, seqlen_q]; inputs are
// already rounded to the problem's type.
struct TrialTensors {
  std::vector<float> q, k, v, out, lse, dout, dq, dk, dv;
  // Of linear attention; an empty state is not given to the kernel.
  std::vector<float> state, normalizer, state_out, normalizer_out;
  // Of packed sequences (varlen), where the matrices are [total, heads, dim] and lse [num_heads_q,
  // total_q]. Rows from the last of cu_seqlens on belong to no sequence.
  std::vector<int32_t> cu_seqlens_q, cu_seqlens_k;
  int64_t total_q = 0, total_k = 0;
  // Of paged keys, where k and v are [num_pages, page_size, heads, dim].
  std::vector<int32_t> seqused_k, block_table;
  int64_t num_pages = 0;
  // The data of masks, in the shapes of MaskData; empty where no mask needs them.
  std::vector<int32_t> documents_q, documents_k;
  std::vector<uint8_t> blocks;
  int64_t blocks_batch = 1, blocks_heads = 1;
  MaskData mask_data() const {
    return {documents_q,  documents_k,  blocks,       blocks_batch,
            blocks_heads, cu_seqlens_q, cu_seqlens_k, seqused_k};
  }
  reference::Inputs view() const {
    return {q, k, v, {documents_q, documents_k, blocks, blocks_batch, blocks_heads}};
  }
};

// Standard normal values from a counter-based generator: the same on every machine. Of the data of
// masks: add_random_mask_data().
TrialTensors random_inputs(const Problem& problem, const reference::Sizes& sizes, uint64_t seed);
// The state of a linear attention that has seen a few keys; random_inputs() gives one to a step.
void add_random_state(const Problem& problem, const reference::Sizes& sizes, uint64_t seed,
                      TrialTensors& inputs);
// The document ids of queries, each that of the key at its position in `inputs.documents_k`;
// INT32_MIN before the first key.
std::vector<int32_t> query_documents(const Problem& problem, const reference::Sizes& sizes,
                                     const TrialTensors& inputs);
// Adds what follows from the rest: a backward pass gets the reference's out, rounded, and lse.
Status complete_inputs(const Problem& problem, const reference::Sizes& sizes, TrialTensors& inputs);

struct TrialOptions {
  // NaN rows after each sequence and NaN elements after each row; with a `strided` problem the rows
  // are also not aligned and every matrix has strides of its own.
  bool gaps = false;
  int repeat = 1;  // runs; every one must give the same bits
};

struct TrialOutputs : TrialTensors {
  LaunchPlan plan;
  std::optional<Schedule> schedule;  // of a plan that needs one
};

// Allocates, copies in, launches, copies out. kDeviceFault also where an input, the schedule or
// memory around an output changed, or a repeated run differs.
Result<TrialOutputs> run_trial(Session& session, const Kernel& kernel,
                               const reference::Sizes& sizes, const TrialTensors& inputs,
                               const TrialOptions& options);

struct Verdict {
  // One per output, by name.
  std::vector<std::pair<std::string, reference::Comparison>> outputs;
  bool ok() const;
  // "" if ok, else what is wrong, one sentence.
  std::string detail() const;
};

Result<Verdict> verify(const Problem& problem, const reference::Sizes& sizes,
                       const TrialTensors& inputs, const TrialOutputs& outputs);

// The command that repeats a trial: tilewright run --check --problem '…' --seed 7
std::string reproducer(const Problem& problem, uint64_t seed);

}  // namespace tilewright
