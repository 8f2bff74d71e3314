/* The emulator's extension of the CUDA Driver API: functions looked up by name, through the
   embedded emulator's symbol lookup or dlsym of the stand-alone libcuda.so.1. A device is simulated
   if and only if its driver answers twEmulatorVersion. Plain C. Settings hold for the whole process
   and for launches that start after the call; every function may be called from any thread. Each
   returns 0 or a CUresult value as int (1 = CUDA_ERROR_INVALID_VALUE). */
#ifndef TILEWRIGHT_EMULATOR_H_
#define TILEWRIGHT_EMULATOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What twEmulatorVersion writes: raised when a function is added; none is ever changed. */
#define TW_EMULATOR_VERSION 1

typedef enum TwEmulatorSchedule {
  TW_EMULATOR_SCHEDULE_EAGER = 0,  /* asynchronous work completes at once (the default) */
  TW_EMULATOR_SCHEDULE_LAZY = 1,   /* as late as the program allows */
  TW_EMULATOR_SCHEDULE_RANDOM = 2, /* any legal order, drawn from the seed */
} TwEmulatorSchedule;

typedef enum TwEmulatorObservers {
  TW_EMULATOR_OBSERVERS_OFF = 0,
  TW_EMULATOR_OBSERVERS_MEMORY = 1, /* bounds, lifetime, uninitialised, barriers (the default) */
  TW_EMULATOR_OBSERVERS_FULL = 2,   /* also races, proxies, wgmma registers */
} TwEmulatorObservers;

typedef enum TwEmulatorMatrixNumerics {
  TW_EMULATOR_MATRIX_HARDWARE = 0, /* the tensor cores' fused, truncated sum (the default) */
  TW_EMULATOR_MATRIX_FAST = 1,     /* fp32 in a stated order */
} TwEmulatorMatrixNumerics;

/* What ptxas reports of a kernel. Zero or negative means unknown, and the emulator keeps its own
   estimate. `size` is sizeof(TwEmulatorResources) of the caller. */
typedef struct TwEmulatorResources {
  size_t size;
  int registers_per_thread;
  int barriers;             /* named barriers used, for occupancy on sm_90 */
  int64_t local_bytes;      /* stack and spills per thread; -1 = unknown */
  int64_t spill_load_bytes; /* -1 = unknown */
  int64_t spill_store_bytes;
} TwEmulatorResources;

typedef struct TwEmulatorCounter {
  const char* name; /* an opcode, such as "ld.global" or "mma"; valid as long as the process */
  uint64_t count;   /* warp instructions executed since the last reset */
} TwEmulatorCounter;

/* The name of each function is its typedef without `Fn`, in lowerCamel: twEmulatorVersion. */

typedef int (*TwEmulatorVersionFn)(int* version);
/* kind: TwEmulatorSchedule; the seed matters to RANDOM alone. */
typedef int (*TwEmulatorSetScheduleFn)(int kind, uint64_t seed);
typedef int (*TwEmulatorSetObserversFn)(int level);
/* CPU threads that execute blocks; 0 = one per processor. */
typedef int (*TwEmulatorSetHostThreadsFn)(int threads);
typedef int (*TwEmulatorSetMatrixNumericsFn)(int numerics);
/* The most device memory, in bytes, that all allocations of one device may sum to; 0 = the
   profile's own size. Exceeding it answers CUDA_ERROR_OUT_OF_MEMORY. */
typedef int (*TwEmulatorSetMemoryCapFn)(uint64_t bytes);
/* A launch that executes more warp instructions than this ends with CUDA_ERROR_LAUNCH_TIMEOUT and a
   report; 0 = no limit. */
typedef int (*TwEmulatorSetInstructionLimitFn)(uint64_t warp_instructions);
/* function: a CUfunction of the calling thread's driver. */
typedef int (*TwEmulatorSetResourcesFn)(void* function, const TwEmulatorResources* resources);
/* The readable explanation of the newest fault or refusal, NUL-terminated and cut to `capacity`
   bytes; "" if none. *needed (may be null) receives the whole size with the NUL. buffer may be null
   when capacity is 0. */
typedef int (*TwEmulatorGetLastReportFn)(char* buffer, size_t capacity, size_t* needed);
typedef int (*TwEmulatorClearLastReportFn)(void);
/* Writes at most `capacity` counters, by name, and the number of all to *count. */
typedef int (*TwEmulatorGetCountersFn)(TwEmulatorCounter* counters, size_t capacity, size_t* count);
typedef int (*TwEmulatorResetCountersFn)(void);

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_EMULATOR_H_ */
