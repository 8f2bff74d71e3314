// Kernel: a compiled attention kernel, ready to launch, with what is needed to plan launches.
// LaunchPlan: everything about one shape that does not depend on pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/schedule.h"
#include "tilewright/tensor.h"

struct CUfunc_st;
struct CUstream_st;

namespace tilewright {

// A dim of a Shape that stands in the problem.
inline constexpr int64_t kFromProblem = -1;

// The dims of one launch. One left out is the problem's; num_heads_kv, absent there too, is
// num_heads_q. Zero is a size like any other.
struct Shape {
  int64_t batch = kFromProblem;
  int64_t seqlen_q = kFromProblem;
  int64_t seqlen_k = kFromProblem;
  int64_t num_heads_q = kFromProblem;
  int64_t num_heads_kv = kFromProblem;
  // Rows of packed tensors (varlen): then seqlen_q and seqlen_k are the longest lengths.
  int64_t total_q = kFromProblem;
  int64_t total_k = kFromProblem;
  // Pages of K and V (paged): then seqlen_k is the most keys that a sequence may have.
  int64_t num_pages = kFromProblem;
  bool operator==(const Shape&) const = default;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
};

enum class TensorRole : int { kInput, kOutput };

// What launch() will demand of one tensor.
struct TensorRequirement {
  std::string name;  // "q", "k", "v", "out", "lse", … as in LaunchTensors
  TensorRole role = TensorRole::kInput;
  Dtype dtype = Dtype::kFloat16;
  std::vector<int64_t> shape;
  int64_t alignment_bytes = 0;  // of the address and of every row stride
  bool contiguous = false;      // no strides but those of a dense row-major tensor
  bool optional = false;
};

// One kernel of a launch.
struct LaunchStep {
  std::string entry;
  Dim3 grid = {}, block = {}, cluster = {};
  uint32_t shared_bytes = 0;  // dynamic
};

// Pure data: grids, bytes and requirements for one shape. Made by Kernel::plan.
struct LaunchPlan {
  Shape shape;                    // complete
  std::vector<LaunchStep> steps;  // in order on the stream; empty: a problem of size zero
  int64_t workspace_bytes = 0;    // 16-byte aligned device memory; its content does not matter
  // The tiles of the schedule that launch() needs; 0: it needs none. Its size is known when
  // make_schedule has built it: that of Schedule::bytes.
  int schedule_tile_m = 0, schedule_tile_n = 0;
  std::vector<TensorRequirement> tensors;
  bool needs_schedule() const { return schedule_tile_m > 0; }
  bool empty() const { return steps.empty(); }  // launch() does nothing
};

// Tensors of a launch, by name; those left out have data == nullptr. LaunchPlan::tensors says which
// of them a kernel needs.
struct LaunchTensors {
  Tensor q = {}, k = {}, v = {}, out = {}, lse = {};
  Tensor dout = {}, dq = {}, dk = {}, dv = {};  // backward
  // Linear attention: what the keys so far have left, and with those of this launch; the same array
  // may be both. Without `state` and `normalizer` nothing came before. float32, contiguous: state
  // [batch, num_heads_kv, head_dim_qk, head_dim_v], normalizer [batch, num_heads_kv, head_dim_qk].
  Tensor state = {}, normalizer = {}, state_out = {}, normalizer_out = {};
  // varlen: int32 [batch + 1], sequence b has the rows cu_seqlens[b] <= row < cu_seqlens[b + 1].
  Tensor cu_seqlens_q = {}, cu_seqlens_k = {};
  // paged: int32 [batch], the keys of each sequence; int32 [batch, seqlen_k / page_size rounded
  // up], the pages they lie in. K and V are [num_pages, page_size, num_heads_kv, dim].
  Tensor seqused_k = {}, block_table = {};
  void* workspace = nullptr;
  DeviceSchedule schedule = {};
};

// The ptxas resource report of one entry; -1 where unknown.
struct KernelResources {
  int registers = -1;
  int barriers = -1;
  int64_t static_shared_bytes = -1;
  int64_t spill_store_bytes = -1;
  int64_t spill_load_bytes = -1;
  int64_t stack_bytes = -1;
};

// One __global__ function of a kernel.
struct KernelEntry {
  std::string name;
  KernelResources resources;
  CUfunc_st* function = nullptr;
};

// Where the binary came from.
enum class BinaryOrigin { kCompiled, kDisk, kMemory };

// Cheap to copy (shared state, which keeps the device open even after the Session's end). Every
// function may be called from many threads at once, except that assigning a Kernel is a write.
class Kernel {
 public:
  // Pure: no driver call. Batch and lengths may differ from the problem's, which are hints; numbers
  // of heads may not. kInvalidArgument lists every dim that is missing, negative or contradicts the
  // problem; kUnsupportedProblem where the lengths are out of the kernel's range.
  Result<LaunchPlan> plan(const Shape& shape) const;

  // Which tiles a launch of this shape computes, where the plan needs a schedule; good for any
  // number of launches. Pure; takes time in proportion to the tiles that are not empty (and to the
  // data). kInvalidArgument where the kernel needs none, or a mask's data, or the lengths of
  // sequences where they vary, are absent, of a wrong size or beyond the shape.
  Result<Schedule> make_schedule(const Shape& shape, const MaskData& data) const;

  // Enqueues on `stream` (null = default stream) of the session's device. Allocates, compiles and
  // synchronises nothing, may be captured into a graph. `plan` is this kernel's. Every tensor is
  // checked against its shape first: kInvalidArgument names tensor and value, and nothing ran.
  Status launch(CUstream_st* stream, const LaunchPlan& plan, const LaunchTensors& tensors) const;

  const Problem& problem() const;
  std::string config_text() const;      // the chosen config, only non-default fields
  std::string_view provenance() const;  // who chose it: "default", "tuned exact", …
  // One per step of a plan at most, in a fixed order.
  std::span<const KernelEntry> entries() const;
  BinaryOrigin origin() const;
  double compile_seconds() const;  // 0 unless origin is kCompiled

  // --- Raw access, for callers with their own launcher. ---
  std::string_view source() const;
  std::span<const std::byte> cubin() const;
  std::string_view ptx() const;
  // The one parameter of every entry, packed for cuLaunchKernel's extra buffer.
  Result<std::vector<std::byte>> pack_params(const LaunchPlan& plan,
                                             const LaunchTensors& tensors) const;

  struct State;  // private to runtime/
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace tilewright
