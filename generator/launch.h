// The host side of a launch, family by family alike: the kernels of the launch with grid and shared
// memory, and their parameters. First plan() fills in all that does not depend on pointers, then
// bind() adds those. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "templates/attention/params/backward.h"
#include "templates/attention/params/forward.h"
#include "templates/attention/params/forward_sm90.h"
#include "templates/attention/params/linear.h"
#include "templates/attention/params/standard.h"
#include "tilewright/kernel.h"
#include "tilewright/result.h"

namespace tilewright {

struct LaunchGeometry {
  Dim3 grid = {}, block = {}, cluster = {};
  int64_t shared_bytes = 0;  // dynamic
  bool operator==(const LaunchGeometry&) const = default;
};

// One kernel of a launch.
struct FamilyStep {
  int entry = 0;  // index among the entry points of the family's config
  LaunchGeometry geometry;
};

// The parameters of one launch: every kernel of it takes the same struct.
using AnyParams =
    std::variant<attention::ForwardParams, attention::StandardParams, attention::LinearParams,
                 attention::BackwardParams, attention::ForwardSm90Params>;

struct TileSize {
  int tile_m = 0, tile_n = 0;
  bool operator==(const TileSize&) const = default;
};

struct FamilyLaunch {
  static constexpr int kMaxSteps = 4;
  // In order on the stream; the first num_steps count. None if no output element exists.
  std::array<FamilyStep, kMaxSteps> steps = {};
  int num_steps = 0;
  // Pointers are null and strides 0 until bind().
  AnyParams params = {};
  int64_t workspace_bytes = 0;
  // Tiles of the schedule that the launch needs; 0: it needs none.
  TileSize schedule_tile = {};

  bool needs_schedule() const { return schedule_tile != TileSize{}; }
  bool empty() const { return num_steps == 0; }
  std::span<const FamilyStep> used_steps() const {
    return {steps.data(), static_cast<size_t>(num_steps)};
  }
  void add_step(int entry, const LaunchGeometry& geometry) {
    steps.at(static_cast<size_t>(num_steps++)) = {entry, geometry};
  }
};

// Every tensor that a launch may have. The order is that of tensor_fields() in runtime/.
enum class TensorId : int {
  kQ,
  kK,
  kV,
  kOut,
  kLse,
  kDout,
  kDq,
  kDk,
  kDv,
  kState,
  kNormalizer,
  kStateOut,
  kNormalizerOut,
  kCuSeqlensQ,
  kCuSeqlensK,
  kSequsedK,
  kBlockTable,
  kCount
};

// A tensor that was checked: strides of extents 0 and 1 are 0 (1 for the innermost dim).
struct BoundTensor {
  void* data = nullptr;
  attention::TensorStrides strides = {};  // batch, head, row, dim; 0 for tensors without these dims
};

struct BoundTensors {
  std::array<BoundTensor, static_cast<size_t>(TensorId::kCount)> tensors = {};
  void* workspace = nullptr;
  DeviceSchedule schedule = {};

  BoundTensor& operator[](TensorId id) { return tensors[static_cast<size_t>(id)]; }
  const BoundTensor& operator[](TensorId id) const { return tensors[static_cast<size_t>(id)]; }
};

}  // namespace tilewright
