// A driver of one GPU that executes nothing, as libcuda.so.1 for the tests of the path through
// dlopen. These controls are looked up by name in the opened library.
#pragma once

#include <cuda.h>

struct FakeCuda {
  int driver_version = 13000;
  CUresult cubin_result = CUDA_SUCCESS;  // of loading an ELF image
  CUresult ptx_result = CUDA_SUCCESS;    // of loading text
  CUresult alloc_result = CUDA_SUCCESS;
  CUresult sync_result = CUDA_SUCCESS;
  CUcontext current = nullptr;  // of the (only) thread
  int cubins_loaded = 0, ptx_loaded = 0, modules_unloaded = 0;
  int contexts_retained = 0, contexts_released = 0;
  int largest_shared_bytes = 0;
};

using FakeCudaControl = FakeCuda* (*)();  // "fake_cuda_control"
