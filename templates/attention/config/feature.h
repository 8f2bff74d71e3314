// The feature maps of linear attention. Compiled by the host and by NVRTC.
#pragma once

namespace tilewright::attention {

enum class Feature : int {
  kIdentity,  // φ(x) = x, no normaliser
  kElu1,      // φ(x) = elu(x) + 1, divided by the normaliser
};

}  // namespace tilewright::attention
