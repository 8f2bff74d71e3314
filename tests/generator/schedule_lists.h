// The lists of a schedule, read as the kernel reads them and compared with a mask pair by pair.
#pragma once

#include <cstdint>

#include "generator/tile_schedule.h"
#include "reference/visibility.h"

namespace tilewright::testing {

struct Tally {
  int64_t pairs = 0, full = 0, partial = 0;
};

// Every pair of one (batch, head) of the lengths in `shape`; empty tiles must be absent, full ones
// marked, all in order. Fails the running test; adds up what is there.
void expect_list(const Schedule& schedule, const Shape& shape, int64_t batch, int64_t head,
                 const reference::Visibility& visible, Tally& tally);

}  // namespace tilewright::testing
