// What stands behind the driver's handles: devices, contexts, modules, functions, streams, events
// and graphs. Streams execute synchronously, in order, when work is enqueued; a capturing stream
// records the same operations as graph nodes instead.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/arch.h"
#include "emulator/driver/cuda_api.h"
#include "emulator/machine/machine.h"
#include "emulator/machine/memory.h"
#include "emulator/machine/program.h"

namespace tilewright::emulator::driver {

struct Context;
struct Stream;
struct Graph;
struct Capture;

struct Device;

// How long a host-side allocation's owner lives, and what device memory belongs to a context.
struct DeviceAllocation {
  uint64_t bytes = 0;
  CUcontext owner = nullptr;
  CUmemoryPool pool = nullptr;  // stream-ordered allocations
  uint64_t id = 0;
  bool module_variable = false;
};

struct Context {
  CUcontext handle = nullptr;
  Device* device = nullptr;
  unsigned flags = 0;
  unsigned api_version = 0;
  bool is_primary = false;
  unsigned long long id = 0;
  std::atomic<bool> alive{true};
  // The first fault of a kernel; every later call answers it until the context goes.
  std::atomic<CUresult> fault{CUDA_SUCCESS};
  std::mutex mutex;  // guards what follows
  std::map<CUlimit, size_t> limits;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  std::shared_ptr<Stream> legacy_stream;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_streams;
};

struct Function;

struct Module {
  CUmodule handle = nullptr;
  std::weak_ptr<Context> context;
  CUcontext owner = nullptr;
  bool of_library = false;  // only cuLibraryUnload may unload it
  std::atomic<bool> alive{true};
  int ptx_version = 0;  // 90 for .target sm_90
  std::mutex mutex;     // guards functions
  std::map<std::string, CUfunction, std::less<>> functions;
  std::unique_ptr<LoadedModule> loaded;
};

struct Function {
  CUfunction handle = nullptr;
  std::shared_ptr<Module> module;
  int kernel = -1;              // index in the loaded module
  std::mutex mutex;             // guards what follows
  int max_dynamic_shared = -1;  // -1: never set, so 48 KB less the static bytes
  int carveout = -1;
  bool non_portable_cluster = false;
  bool cluster_must_be_set = false;
  std::array<int, 3> required_cluster = {0, 0, 0};
  int cluster_policy = 0;
  int registers = 0;  // as reported through the extension; 0: the machine's estimate
  int barriers = 0;
  int64_t local_bytes = -1;

  const KernelAttributes& attributes() const { return module->loaded->kernel(kernel); }
};

struct Library;

struct Kernel {
  CUkernel handle = nullptr;
  std::weak_ptr<Library> library;
  std::string name;
};

struct Library {
  CUlibrary handle = nullptr;
  std::vector<std::string> ptx;  // one text, or those of a fatbinary
  std::vector<std::string> kernel_names;
  std::mutex mutex;  // guards what follows
  std::map<std::string, CUkernel, std::less<>> kernels;
  std::map<CUcontext, CUmodule> modules;                                      // loaded on first use
  std::map<std::pair<std::string, CUdevice>, std::map<int, int>> attributes;  // set per device
};

struct Event {
  CUevent handle = nullptr;
  CUcontext owner = nullptr;
  unsigned flags = 0;
  // Guarded by Driver::graph_mutex: where it was last recorded, if that was in a capture.
  std::weak_ptr<Capture> capture;
  std::vector<CUgraphNode> captured_nodes;
};

// --- what a stream executes and a graph holds

struct KernelLaunch {
  std::shared_ptr<Function> function;
  uint64_t stream_id = 0;     // 0: none, as of a node that no capture made
  bool is_dependent = false;  // programmatic stream serialisation: may overlap the one before
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;
};
struct Copy {
  CUDA_MEMCPY3D region{};
  Device* source_device = nullptr;  // of device and unified addresses
  Device* target_device = nullptr;
};
struct Fill {
  CUDA_MEMSET_NODE_PARAMS params{};
};
struct HostCall {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct StreamCallback {
  CUstreamCallback function = nullptr;
  void* data = nullptr;
  CUstream stream = nullptr;
};
struct Nothing {};
using Operation = std::variant<Nothing, KernelLaunch, Copy, Fill, HostCall, StreamCallback>;

// A kernel that has been enqueued and not started.
struct HeldLaunch {
  std::shared_ptr<Context> context;
  KernelLaunch launch;
  LaunchSettings settings;  // as of its launch
};

struct Device {
  DeviceProfile profile;
  CUdevice ordinal = 0;
  std::mutex mutex;                      // guards what follows
  std::unique_ptr<DeviceMemory> memory;  // made with the first context
  CUcontext primary_handle = nullptr;    // fixed at the first retain
  int primary_retained = 0;
  unsigned primary_flags = 0;
  CUmemoryPool default_pool = nullptr;  // fixed
  CUmemoryPool current_pool = nullptr;
  std::mutex execution;  // one operation of the device's memory at a time
  // Guarded by execution: a kernel that lets dependents start early and waits for one to come.
  std::optional<HeldLaunch> held;
  std::atomic<bool> holds{false};       // held has a value
  std::atomic<bool> has_memory{false};  // memory is made and stays
};

struct GraphNode {
  CUgraphNode handle = nullptr;
  std::weak_ptr<Graph> graph;
  std::shared_ptr<Context> context;
  Operation operation;
  std::vector<CUgraphNode> dependencies;
  // Parameter values as cuGraphKernelNodeGetParams hands them out: pointers into the block.
  std::vector<void*> parameter_pointers;
};

// Guarded by Driver::graph_mutex as a whole, nodes included.
struct Graph {
  CUgraph handle = nullptr;
  std::vector<std::shared_ptr<GraphNode>> nodes;  // in order of creation
};

struct ExecNode {
  CUgraphNode original = nullptr;
  std::shared_ptr<Context> context;
  Operation operation;
};

struct GraphExec {
  CUgraphExec handle = nullptr;
  unsigned long long flags = 0;
  std::mutex mutex;             // guards what follows
  std::vector<ExecNode> nodes;  // in an order that respects the dependencies
};

// Guarded by Driver::graph_mutex, as is a stream's part in it.
struct Capture {
  std::shared_ptr<Graph> graph;
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  CUcontext context = nullptr;
  bool blocking = false;  // the origin synchronises with the legacy stream
  bool invalidated = false;
  std::vector<std::weak_ptr<Stream>> streams;  // the origin first
};

struct Stream {
  CUstream handle = nullptr;  // null for a context's legacy stream
  std::weak_ptr<Context> context;
  CUcontext owner = nullptr;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> last_nodes;  // what the next captured node depends on
};

struct MemoryPool {
  CUmemoryPool handle = nullptr;
  Device* device = nullptr;
  bool is_default = false;
  std::mutex mutex;
  std::map<CUmemPool_attribute, uint64_t> attributes;
};

}  // namespace tilewright::emulator::driver
