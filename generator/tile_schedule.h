// From masks to the key tiles that each query tile visits: the content of a Schedule, in the layout
// of attention/params/tile_lists.h. Pure.
#pragma once

#include <cstdint>

#include "generator/launch.h"
#include "templates/attention/params/tile_lists.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/schedule.h"

namespace tilewright {

struct ScheduleBuild {
  Schedule schedule;
  // Intervals, tiles and rows of patterns that were looked at: what the time goes into, at most a
  // constant (of the tile's size) for each query row and each tile that is not empty.
  int64_t steps = 0;
};

// `shape` is complete; where lengths vary, those of `data` are within it. kInvalidArgument where
// mask data are absent or of a wrong size, kUnsupportedProblem for masks without a list or where a
// list would exceed 32-bit indices.
Result<ScheduleBuild> build_schedule(const Problem& problem, const Shape& shape,
                                     const TileSize& tile, const MaskData& data);

// Device pointers into an uploaded schedule.
attention::TileLists tile_lists(const DeviceSchedule& schedule);

}  // namespace tilewright
