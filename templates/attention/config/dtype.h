// The element types that kernels read. Compiled by the host and by NVRTC.
#pragma once

namespace tilewright::attention {

enum class Dtype : int { kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2 };

}  // namespace tilewright::attention
