// cuda.h with the declarations of every versioned and per-thread-stream name, so that each entry
// point can take its type from there. Everything in emulator/driver includes cuda.h through here.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR  // without the enumerators that only a driver sees
#include <cuda.h>
