#define TW_LANE_NAMESPACE lanes_avx2
#define TW_LANE_NAME "avx2"
#include "emulator/machine/lane_kernels.inc"
