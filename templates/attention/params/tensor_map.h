// A tensor map as host and device see it: opaque, filled in by the driver. Parameters that hold one
// are passed as __grid_constant__, so that TMA can read it in place.
#pragma once

namespace tilewright::attention {

struct alignas(64) TensorMap {
  unsigned long long words[16];
};

}  // namespace tilewright::attention
