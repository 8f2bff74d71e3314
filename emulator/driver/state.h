// The emulated driver itself. A CUDA driver is process-wide by nature: its handles, contexts and
// current-context stacks belong to the process and its threads. This is the project's one exception
// to "no mutable globals": one object, made at the first call and never destroyed, every part of it
// guarded by a mutex.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulator/driver/objects.h"
#include "emulator/driver/registry.h"

// Passes a CUresult that is not success on to the caller.
#define TW_DRIVER_TRY(...)                                                                     \
  do {                                                                                         \
    if (const CUresult tw_result = (__VA_ARGS__); tw_result != CUDA_SUCCESS) return tw_result; \
  } while (false)

namespace tilewright::emulator::driver {

struct HostAllocation {
  std::unique_ptr<std::byte[], void (*)(std::byte*)> bytes;  // null data: registered by the program
  size_t size = 0;
  unsigned flags = 0;
  CUcontext owner = nullptr;
};

// What the extension sets for launches to come.
struct Settings {
  LaunchSettings launch;
  uint64_t memory_cap_bytes = 0;
};

class Driver {
 public:
  static Driver& instance();

  std::atomic<bool> initialised{false};
  std::string configuration_error;               // fixed; not empty: cuInit fails
  std::vector<std::unique_ptr<Device>> devices;  // fixed once made

  Registry<CUcontext, Context> contexts;
  Registry<CUmodule, Module> modules;
  Registry<CUfunction, Function> functions;
  Registry<CUlibrary, Library> libraries;
  Registry<CUkernel, Kernel> kernels;
  Registry<CUstream, Stream> streams;
  Registry<CUevent, Event> events;
  Registry<CUgraph, Graph> graphs;
  Registry<CUgraphNode, GraphNode> graph_nodes;
  Registry<CUgraphExec, GraphExec> graph_execs;
  Registry<CUmemoryPool, MemoryPool> pools;
  std::mutex graph_mutex;
  std::vector<std::shared_ptr<Capture>> captures;  // in progress; guarded by graph_mutex

  std::mutex allocation_mutex;  // guards both maps
  std::map<std::pair<Device*, CUdeviceptr>, DeviceAllocation> device_allocations;
  std::map<const void*, HostAllocation> host_allocations;

  std::atomic<uint64_t> next_id{1};

  Settings settings() const;
  template <class Change>
  void change_settings(Change&& change) {
    const std::lock_guard lock(settings_mutex_);
    change(settings_);
  }

  // The newest explanation, for twEmulatorGetLastReport.
  void set_report(std::string text);
  std::string last_report() const;

  void add_counters(const Counters& counters);
  Counters counters() const;
  void reset_counters();

  Device* device(CUdevice ordinal) const;
  // The device whose range of addresses holds `address`, allocated or not; null if there is none.
  Device* device_of(CUdeviceptr address) const;

 private:
  Driver();

  mutable std::mutex settings_mutex_;
  Settings settings_;
  mutable std::mutex report_mutex_;
  std::string report_;
  mutable std::mutex counters_mutex_;
  Counters counters_;
};

// Sets the report and passes the code through: return refuse(CUDA_ERROR_INVALID_VALUE, "…", …).
template <class... Args>
CUresult refuse(CUresult code, fmt::format_string<Args...> format, Args&&... args) {
  Driver::instance().set_report(fmt::format(format, std::forward<Args>(args)...));
  return code;
}

// --- the calling thread's view (context_stack.cpp)

// The current context, live and without a fault. INVALID_CONTEXT, CONTEXT_IS_DESTROYED or the
// sticky fault otherwise; NOT_INITIALIZED before cuInit.
CUresult current_context(std::shared_ptr<Context>* context);
// The handle on top of the thread's stack, null if none.
CUcontext current_handle();
void push_current(CUcontext context);
CUcontext pop_current();
void set_current(CUcontext context);

// While one lives, current_context() on its thread leaves a held kernel held: for the calls that
// may bring its dependent.
class KeepHeld {
 public:
  KeepHeld();
  ~KeepHeld();
  KeepHeld(const KeepHeld&) = delete;
  KeepHeld& operator=(const KeepHeld&) = delete;
};

// --- contexts (context.cpp)

CUresult make_context(Device& device, unsigned flags, unsigned api_version, bool primary,
                      CUcontext fixed_handle, CUcontext* context);
// Ends it and all that belongs to it. The handle must not be found any more.
void end_context(Context& context);

// --- streams, captures and graphs (stream.cpp, capture.cpp, execute.cpp)

// Null and the special values 1 and 2 are resolved in the current context. Naming the legacy stream
// while a blocking stream captures breaks that capture: STREAM_CAPTURE_IMPLICIT.
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>* stream);
// The same, breaking nothing.
CUresult peek_stream(CUstream handle, std::shared_ptr<Stream>* stream);
bool is_capturing(const Stream& stream);
// For calls that wait or query: STREAM_CAPTURE_UNSUPPORTED, and the capture is broken.
CUresult refuse_in_capture(Stream& stream);
// The stream is about to go: a capture it takes part in is broken, and over if it began there.
void leave_capture(const std::shared_ptr<Stream>& stream);
// Executes the operation now, or adds it to the stream's capture.
CUresult enqueue(Stream& stream, Operation operation);
// Runs one operation on the context's device. A kernel's fault is kept in the context and does not
// show in the result.
CUresult execute(Context& context, const Operation& operation);
// Runs the kernel that the device holds back, if any.
void finish_held(Device& device);
void finish_held_everywhere();
// What a call that a global or own thread-local capture forbids must pass first; breaks the capture
// otherwise.
CUresult check_unsafe_call();
// Appends a node to the graph. graph_mutex held.
CUgraphNode add_node(const std::shared_ptr<Graph>& graph, std::shared_ptr<Context> context,
                     Operation operation, std::vector<CUgraphNode> dependencies);

// --- modules (module.cpp, function.cpp)

CUresult find_function(CUfunction handle, std::shared_ptr<Function>* function);
// Loads the best of the texts for the context's device; *log says why not.
CUresult load_module(const std::vector<std::string>& texts, const std::shared_ptr<Context>& context,
                     std::shared_ptr<Module>* module, std::string* log);
CUresult read_file(const char* path, std::string* bytes);
CUresult get_function(const std::shared_ptr<Module>& module, std::string_view name,
                      CUfunction* function);
void unload_module(Module& module);
CUresult set_function_attribute(Function& function, CUfunction_attribute attribute, int value);
CUresult get_function_attribute(Function& function, CUfunction_attribute attribute, int* value);
// Blocks that an SM holds at once, with the registers and barriers known of the function.
int blocks_per_sm(Function& function, int threads, size_t dynamic_shared_bytes);

// --- memory (memory.cpp)

// What lies at an address of the device; says so if it is one of another device.
std::string describe_address(const Device& device, CUdeviceptr address);
// Empty, or whose address it is.
std::string foreign_owner(const Device& device, CUdeviceptr address);
// Frees every device allocation that the predicate's owner held.
void release_allocations_of(CUcontext owner);
CUresult allocate(Context& context, size_t bytes, CUmemoryPool pool, CUdeviceptr* address);

// --- launches (launch.cpp)

struct LaunchShape {
  Dim3 grid{}, block{}, cluster{};
  bool cluster_given = false;
  bool cooperative = false;
  bool is_dependent = false;
  size_t dynamic_shared_bytes = 0;
};
// Checks as a driver does and packs the parameters.
CUresult prepare_launch(const std::shared_ptr<Function>& function, const LaunchShape& shape,
                        void** kernel_params, void** extra, KernelLaunch* launch);

}  // namespace tilewright::emulator::driver
