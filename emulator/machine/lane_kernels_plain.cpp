#define TW_LANE_NAMESPACE lanes_plain
#define TW_LANE_NAME "plain"
#include "emulator/machine/lane_kernels.inc"
