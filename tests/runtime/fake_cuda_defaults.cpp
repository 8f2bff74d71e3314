// Every function that the driver table needs, succeeding at nothing; fake_cuda.cpp overrides.
#include "runtime/driver_table.h"

#define TW_DEFINE_DEFAULT(member, name, parameters)           \
  extern "C" CUresult fake_##member parameters __asm__(name); \
  extern "C" __attribute__((weak)) CUresult fake_##member parameters { return CUDA_SUCCESS; }
TW_DRIVER_SYMBOLS(TW_DEFINE_DEFAULT)
#undef TW_DEFINE_DEFAULT
