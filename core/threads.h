// Parallel loops on threads that live only as long as the call: the library keeps none.
#pragma once

#include <cstdint>
#include <functional>

namespace tilewright {

// Processors this process may run on; at least 1.
int available_cpus();

// Calls body(index, worker) once for each index in [0, count), on min(jobs, count) workers numbered
// from 0; the caller is worker 0. jobs <= 0 means available_cpus(). Indices are handed out in
// increasing order. Returns when all calls have. Where a thread cannot be started, the others do
// its work.
void parallel_for(int64_t count, int jobs, const std::function<void(int64_t, int)>& body);

}  // namespace tilewright
