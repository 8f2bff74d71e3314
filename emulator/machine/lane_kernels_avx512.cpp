#define TW_LANE_NAMESPACE lanes_avx512
#define TW_LANE_NAME "avx512"
#include "emulator/machine/lane_kernels.inc"
