// A loaded PTX module: kernels decoded into compact instructions that the machine executes, module
// variables placed in device memory, and what the driver answers about functions. Decoding happens
// once, at load; everything the machine cannot run is refused here with file, line and text.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "emulator/machine/memory.h"
#include "tilewright/result.h"

namespace tilewright::emulator {

namespace ptx {
struct Module;
}

// One kernel parameter in the launch's parameter block.
struct ParameterInfo {
  std::string name;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// What the driver reports of a kernel, and what a launch is checked against.
struct KernelAttributes {
  std::string name;
  std::vector<ParameterInfo> parameters;
  uint32_t parameter_base = 0;  // of parameters in the constant bank, which they are aligned in
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;    // without the 1 KB that sm_90 reserves
  uint32_t dynamic_shared_align = 16;  // largest alignment of its .extern .shared arrays
  uint32_t local_bytes = 0;            // per thread
  uint32_t registers = 0;              // per thread, estimated from liveness
  std::array<uint32_t, 3> max_threads = {0, 0, 0};       // .maxntid, 0 = not given
  std::array<uint32_t, 3> required_threads = {0, 0, 0};  // .reqntid
  std::array<uint32_t, 3> required_cluster = {0, 0, 0};  // .reqnctapercluster
  uint32_t min_blocks_per_sm = 0;
  uint32_t max_registers = 0;  // .maxnreg
  // What every launch allots per thread, where directives fix it (setmaxnreg needs that); else 0.
  uint32_t fixed_registers = 0;
  bool explicit_cluster = false;
  uint32_t instructions = 0;
  bool launches_dependents = false;  // contains griddepcontrol.launch_dependents
  bool communicates = false;         // may wait on other blocks: run in model order on one thread
};

// A .global or .const variable.
struct ModuleVariable {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  bool read_only = false;
};

struct Program;  // decoded functions; emulator/machine/code.h

struct ModuleOptions {
  std::string file_name = "module.ptx";  // for messages
  Arch arch;                             // the device it is loaded on
};

// Holds device memory for its variables until destroyed; must not outlive the DeviceMemory.
class LoadedModule {
 public:
  // kParseError or kUnsupportedProblem, each with file, line and the instruction's text.
  static Result<std::unique_ptr<LoadedModule>> load(std::string_view ptx_text,
                                                    const ModuleOptions& options,
                                                    DeviceMemory& memory);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  // Index of a kernel by its (mangled) name, -1 if there is none.
  int find_kernel(std::string_view name) const;
  int num_kernels() const;
  const KernelAttributes& kernel(int index) const;
  const std::map<std::string, ModuleVariable, std::less<>>& variables() const;
  const Program& program() const { return *program_; }
  const Arch& arch() const { return arch_; }

 private:
  LoadedModule(DeviceMemory& memory, const Arch& arch);

  DeviceMemory& memory_;
  Arch arch_;
  std::unique_ptr<Program> program_;
};

}  // namespace tilewright::emulator
