#include "core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace tilewright {

int available_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(int64_t count, int jobs, const std::function<void(int64_t, int)>& body) {
  if (count <= 0) return;
  if (jobs <= 0) jobs = available_cpus();
  const int workers = static_cast<int>(std::min<int64_t>(jobs, count));

  std::atomic<int64_t> next{0};
  const auto work = [&](int worker) {
    for (int64_t index = next.fetch_add(1, std::memory_order_relaxed); index < count;
         index = next.fetch_add(1, std::memory_order_relaxed)) {
      body(index, worker);
    }
  };

  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(workers));
  for (int worker = 1; worker < workers; ++worker) {
    try {
      threads.emplace_back(work, worker);
    } catch (const std::system_error&) {
      break;  // out of threads: those that run share the work
    }
  }
  work(0);
}

}  // namespace tilewright
