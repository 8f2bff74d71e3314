// LoadedModule::load: parse, place variables, decode every kernel.
#include <algorithm>
#include <cstring>
#include <set>

#include "core/check.h"
#include "emulator/machine/builtins.h"
#include "emulator/machine/decoder.h"
#include "emulator/machine/program.h"
#include "emulator/ptx/liveness.h"
#include "emulator/ptx/parser.h"

namespace tilewright::emulator {
namespace {

using ptx::kNoIndex;
using ptx::StateSpace;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return multiple <= 1 ? value : (value + multiple - 1) / multiple * multiple;
}

Status check_target(const ptx::Module& module, const ModuleOptions& options) {
  const int device = options.arch.compute_capability();
  const int wanted = module.target.compute_capability;
  const bool suits = module.target.has_suffix ? wanted == device : wanted <= device;
  if (suits) return {};
  return make_error(ErrorCode::kUnsupportedProblem, "{}: compiled for sm_{}{}, the device is {}",
                    options.file_name, wanted, module.target.has_suffix ? "a" : "",
                    options.arch.target());
}

// Functions whose addresses are taken anywhere: the possible targets of indirect calls.
std::set<uint32_t> address_taken(const ptx::Module& module) {
  std::set<uint32_t> taken;
  for (const ptx::Variable& variable : module.variables) {
    for (const ptx::Relocation& relocation : variable.relocations) {
      if (relocation.kind == ptx::Relocation::Kind::kFunction) taken.insert(relocation.index);
    }
  }
  for (const ptx::Function& function : module.functions) {
    for (const ptx::CallTargets& targets : function.call_targets) {
      taken.insert(targets.functions.begin(), targets.functions.end());
    }
    for (const ptx::Instruction& instruction : function.instructions) {
      if (instruction.opcode == ptx::Opcode::kCall) continue;
      for (const ptx::Operand& operand : function.operands(instruction)) {
        if (operand.symbol == ptx::SymbolKind::kFunction) taken.insert(operand.index);
      }
    }
  }
  return taken;
}

// Calls of one function: direct callees, and whether it calls through a pointer.
void callees(const ptx::Function& function, const std::set<uint32_t>& taken,
             std::set<uint32_t>& out) {
  for (const ptx::Instruction& instruction : function.instructions) {
    if (instruction.opcode != ptx::Opcode::kCall) continue;
    const ptx::Operand& target = function.operands(instruction)[1];
    if (target.kind == ptx::OperandKind::kSymbol) {
      out.insert(target.index);
    } else {
      out.insert(taken.begin(), taken.end());
    }
  }
}

class KernelLoader {
 public:
  KernelLoader(Program& program, const Arch& arch, uint32_t entry)
      : program_(program),
        module_(*program.module),
        kernel_(std::make_unique<KernelCode>()),
        context_{*kernel_, module_, program, arch, {}, {}, {}},
        entry_(entry) {}

  Result<std::unique_ptr<KernelCode>> load() {
    kernel_->module = &module_;
    find_functions();
    TW_TRY(check_local());
    layout_shared();
    if (kernel_->attributes.static_shared_bytes > context_.arch.shared_bytes_per_block) {
      return refuse("bytes of static shared memory", kernel_->attributes.static_shared_bytes,
                    static_cast<uint64_t>(context_.arch.shared_bytes_per_block));
    }
    kernel_->functions.resize(order_.size());
    for (size_t n = 0; n < order_.size(); ++n) {
      FunctionDecoder decoder(context_, order_[n], kernel_->functions[n]);
      TW_TRY(decoder.decode());
    }
    TW_TRY(measure_stack());
    describe();
    return std::move(kernel_);
  }

 private:
  void find_functions() {
    const std::set<uint32_t> taken = address_taken(module_);
    order_ = {entry_};
    kernel_->function_of[entry_] = 0;
    for (size_t n = 0; n < order_.size(); ++n) {
      std::set<uint32_t> called;
      callees(module_.functions[order_[n]], taken, called);
      for (const uint32_t callee : called) {
        if (!module_.functions[callee].has_body) continue;
        calls_[order_[n]].insert(callee);
        if (kernel_->function_of.count(callee) != 0) continue;
        kernel_->function_of[callee] = static_cast<int>(order_.size());
        order_.push_back(callee);
      }
    }
  }

  // Shared variables that the kernel's functions name, in order; dynamic arrays lie behind them.
  void layout_shared() {
    std::set<uint32_t> used;
    for (const uint32_t index : order_) {
      const ptx::Function& function = module_.functions[index];
      for (const ptx::Operand& operand : function.pool) {
        if (operand.symbol == ptx::SymbolKind::kModuleVariable && operand.index != kNoIndex) {
          used.insert(operand.index);
        }
      }
    }
    uint64_t bytes = 0;
    uint32_t dynamic_align = 16;
    std::vector<uint32_t> dynamic;
    const auto place = [&](const ptx::Variable& variable) {
      bytes = round_up(bytes, variable.align);
      const uint64_t offset = bytes;
      bytes += variable.size;
      return offset;
    };
    for (const uint32_t index : used) {
      const ptx::Variable& variable = module_.variables[index];
      if (variable.space != StateSpace::kShared) continue;
      if (variable.is_unsized) {
        dynamic.push_back(index);
        dynamic_align = std::max(dynamic_align, variable.align);
      } else {
        context_.module_shared[index] = place(variable);
      }
    }
    for (const uint32_t index : order_) {
      const ptx::Function& function = module_.functions[index];
      for (uint32_t v = 0; v < function.variables.size(); ++v) {
        if (function.variables[v].space != StateSpace::kShared) continue;
        context_.function_shared[{index, v}] = place(function.variables[v]);
      }
    }
    KernelAttributes& attributes = kernel_->attributes;
    if (!dynamic.empty()) bytes = round_up(bytes, dynamic_align);
    for (const uint32_t index : dynamic) context_.module_shared[index] = bytes;
    attributes.static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
    attributes.dynamic_shared_align = dynamic_align;
  }

  Error refuse(std::string_view what, uint64_t value, uint64_t limit) const {
    return make_error(ErrorCode::kUnsupportedProblem, "{}: kernel '{}' has {} {}, the limit is {}",
                      program_.file_name, module_.functions[entry_].name, value, what, limit);
  }

  Status check_local() const {
    for (const uint32_t index : order_) {
      uint64_t bytes = 0;
      for (const ptx::Variable& variable : module_.functions[index].variables) {
        if (variable.space != StateSpace::kLocal) continue;
        bytes += variable.size + std::max<uint64_t>(variable.align, 1);
        if (bytes > kMostLocal) return refuse("bytes of local memory", bytes, kMostLocal);
      }
    }
    return {};
  }

  // Local bytes of the deepest chain of calls; a recursive one gets a fixed stack on top.
  Status measure_stack() {
    std::set<uint32_t> path;
    uint64_t bytes = deepest(entry_, path);
    if (kernel_->recursive) bytes += kRecursionStack;
    bytes = round_up(bytes, 64);
    if (too_deep_) return refuse("or more calls in a chain", kMostCalls, kMostCalls);
    if (bytes > kMostLocal) return refuse("bytes of local memory", bytes, kMostLocal);
    kernel_->stack_bytes = static_cast<uint32_t>(bytes);
    return {};
  }

  uint64_t deepest(uint32_t function, std::set<uint32_t>& path) {
    const auto known = depths_.find(function);
    if (known != depths_.end()) return known->second;
    if (path.size() >= kMostCalls) too_deep_ = true;
    if (too_deep_) return 0;
    if (!path.insert(function).second) {
      kernel_->recursive = true;
      return 0;
    }
    uint64_t most = 0;
    for (const uint32_t callee : calls_[function]) most = std::max(most, deepest(callee, path));
    path.erase(function);
    const auto index = static_cast<size_t>(kernel_->function_of.at(function));
    return depths_[function] = kernel_->functions[index].local_bytes + most;
  }

  void describe() {
    const ptx::Function& entry = module_.functions[entry_];
    KernelAttributes& a = kernel_->attributes;
    a.name = entry.name;
    for (const ptx::Param& param : entry.params) {
      a.parameters.push_back({param.name, param.offset, param.size});
    }
    a.parameter_base = entry.param_base;
    a.parameter_bytes = entry.param_bytes;
    a.local_bytes = kernel_->stack_bytes;
    const ptx::Performance& p = entry.performance;
    a.max_threads = {p.maxntid.x, p.maxntid.y, p.maxntid.z};
    a.required_threads = {p.reqntid.x, p.reqntid.y, p.reqntid.z};
    a.required_cluster = {p.reqnctapercluster.x, p.reqnctapercluster.y, p.reqnctapercluster.z};
    a.min_blocks_per_sm = p.minnctapersm;
    a.max_registers = p.maxnreg;
    a.explicit_cluster = p.explicitcluster;
    a.registers = registers();
    a.fixed_registers = fixed_registers();
    for (const uint32_t index : order_) {
      const ptx::Function& function = module_.functions[index];
      a.instructions += static_cast<uint32_t>(function.instructions.size());
      a.communicates |= communicates(function);
      a.launches_dependents |= launches_dependents(function);
    }
  }

  // Registers per thread that let the threads of .maxntid or .reqntid, in .minnctapersm blocks, fit
  // an SM; 255 without such directives.
  uint32_t registers_by_threads() const {
    const ptx::Performance& p = module_.functions[entry_].performance;
    const ptx::Dim3 threads = p.reqntid.x != 0 ? p.reqntid : p.maxntid;
    if (threads.x == 0) return 255;
    // No launch has more than 1024; figures beyond that must not overflow here.
    uint64_t count = std::min<uint64_t>(threads.x, 1024);
    for (const uint32_t extent : {threads.y, threads.z}) {
      count = std::min<uint64_t>(count * std::clamp(extent, 1u, 1024u), 1024);
    }
    const uint64_t warps = (count + 31) / 32 * std::max(p.minnctapersm, 1u);
    return static_cast<uint32_t>(std::min<uint64_t>(65536 / (warps * 32) / 8 * 8, 255));
  }

  // Liveness gives what the values need; a compiler uses a few more and obeys the bounds.
  uint32_t registers() const {
    const ptx::Performance& p = module_.functions[entry_].performance;
    uint32_t most = registers_by_threads();
    if (p.maxnreg != 0) most = std::min(most, p.maxnreg);
    const uint32_t estimate = ptx::estimate_registers(module_, entry_) + 4;
    return std::clamp(static_cast<uint32_t>(round_up(estimate, 8)), 16u, std::max(most, 16u));
  }

  uint32_t fixed_registers() const {
    const ptx::Performance& p = module_.functions[entry_].performance;
    const bool by_threads = p.minnctapersm != 0 && (p.reqntid.x != 0 || p.maxntid.x != 0);
    if (p.maxnreg == 0 && !by_threads) return 0;
    const uint32_t most = p.maxnreg != 0 ? std::min(p.maxnreg, 255u) : registers_by_threads();
    return static_cast<uint32_t>(round_up(most, 8));
  }

  static bool launches_dependents(const ptx::Function& function) {
    return std::any_of(function.instructions.begin(), function.instructions.end(),
                       [](const ptx::Instruction& i) {
                         return i.opcode == ptx::Opcode::kGriddepcontrolLaunchDependents;
                       });
  }

  // May a block wait for what another one does, or learn in which order blocks came? It then runs
  // in model order.
  static bool communicates(const ptx::Function& function) {
    for (const ptx::Instruction& instruction : function.instructions) {
      const ptx::Modifiers& m = instruction.modifiers;
      const bool elsewhere = m.space == StateSpace::kShared ||
                             m.space == StateSpace::kSharedCluster || m.space == StateSpace::kLocal;
      if (elsewhere) continue;
      if (instruction.opcode == ptx::Opcode::kAtom) return true;
      if (instruction.opcode == ptx::Opcode::kLd &&
          (m.semantics == ptx::Semantics::kVolatile || m.semantics == ptx::Semantics::kRelaxed ||
           m.semantics == ptx::Semantics::kAcquire)) {
        return true;
      }
    }
    return false;
  }

  // As large as a program that sets no limit may expect, times what the emulator can spare.
  static constexpr uint32_t kRecursionStack = 16384;
  static constexpr uint64_t kMostLocal = 512 * 1024;  // per thread, on every architecture
  static constexpr size_t kMostCalls = 1000;

  Program& program_;
  const ptx::Module& module_;
  std::unique_ptr<KernelCode> kernel_;
  KernelContext context_;
  uint32_t entry_;
  std::vector<uint32_t> order_;  // module indices of kernel_->functions
  std::map<uint32_t, std::set<uint32_t>> calls_;
  std::map<uint32_t, uint64_t> depths_;  // local bytes from a function down
  bool too_deep_ = false;
};

Status place_variable(const ptx::Variable& variable, const std::string& name, Program& program,
                      DeviceMemory& memory, DeviceAddress* address) {
  const bool read_only = variable.space == StateSpace::kConst;
  DeviceMemory::AllocateOptions options;
  options.alignment = std::max<uint64_t>(variable.align, 16);
  options.read_only = read_only;
  options.label = name;
  TW_ASSIGN(*address, memory.allocate(std::max<uint64_t>(variable.size, 1), options));
  program.variables[name] = {*address, variable.size, read_only};
  std::vector<uint8_t> bytes(variable.size, 0);
  const size_t given = std::min(variable.initialiser.size(), bytes.size());
  std::copy_n(variable.initialiser.begin(), given, bytes.begin());
  return memory.copy_in(*address, bytes.data(), bytes.size());
}

Status relocate(const ptx::Variable& variable, DeviceAddress at, const Program& program,
                DeviceMemory& memory) {
  for (const ptx::Relocation& relocation : variable.relocations) {
    uint64_t value = 0;
    if (relocation.kind == ptx::Relocation::Kind::kFunction) {
      value = function_address(relocation.index);
    } else {
      value = program.variable_addresses[relocation.index];
    }
    value = (value + static_cast<uint64_t>(relocation.addend)) >> relocation.shift;
    TW_TRY(memory.copy_in(at + relocation.offset, &value, std::min<size_t>(relocation.size, 8)));
  }
  return {};
}

Status place_variables(Program& program, DeviceMemory& memory) {
  const ptx::Module& module = *program.module;
  program.variable_addresses.assign(module.variables.size(), 0);
  for (size_t i = 0; i < module.variables.size(); ++i) {
    const ptx::Variable& variable = module.variables[i];
    if (variable.space != StateSpace::kGlobal && variable.space != StateSpace::kConst) continue;
    if (variable.linkage == ptx::Linkage::kExtern) {
      return make_error(ErrorCode::kUnsupportedProblem, "{}:{}: variable {} is not defined here",
                        program.file_name, variable.line, variable.name);
    }
    TW_TRY(
        place_variable(variable, variable.name, program, memory, &program.variable_addresses[i]));
  }
  for (const ptx::Function& function : module.functions) {
    for (const ptx::Variable& variable : function.variables) {
      if (variable.space != StateSpace::kGlobal && variable.space != StateSpace::kConst) continue;
      DeviceAddress address = 0;
      const std::string name = function.name + "." + variable.name;
      TW_TRY(place_variable(variable, name, program, memory, &address));
      TW_TRY(relocate(variable, address, program, memory));
    }
  }
  for (size_t i = 0; i < module.variables.size(); ++i) {
    if (program.variable_addresses[i] == 0) continue;
    TW_TRY(relocate(module.variables[i], program.variable_addresses[i], program, memory));
  }
  return {};
}

}  // namespace

LoadedModule::LoadedModule(DeviceMemory& memory, const Arch& arch)
    : memory_(memory), arch_(arch), program_(std::make_unique<Program>()) {}

LoadedModule::~LoadedModule() {
  for (const auto& [name, variable] : program_->variables) {
    const Status released = memory_.release(variable.address);
    TW_CHECK(released.ok(), "variable {}", name);
  }
}

Result<std::unique_ptr<LoadedModule>> LoadedModule::load(std::string_view ptx_text,
                                                         const ModuleOptions& options,
                                                         DeviceMemory& memory) {
  auto parsed = ptx::parse(ptx_text);
  if (!parsed.ok()) {
    return make_error(ErrorCode::kParseError, "{}:{}", options.file_name, parsed.error().message);
  }
  std::unique_ptr<LoadedModule> loaded(new LoadedModule(memory, options.arch));
  Program& program = *loaded->program_;
  program.file_name = options.file_name;
  program.module = std::make_unique<ptx::Module>(*std::move(parsed));
  TW_TRY(check_target(*program.module, options));
  TW_TRY(place_variables(program, memory));
  for (uint32_t i = 0; i < program.module->functions.size(); ++i) {
    const ptx::Function& function = program.module->functions[i];
    if (!function.is_entry || !function.has_body) continue;
    KernelLoader loader(program, options.arch, i);
    TW_ASSIGN(auto kernel, loader.load());
    program.kernel_index[function.name] = static_cast<int>(program.kernels.size());
    program.kernels.push_back(std::move(kernel));
  }
  return loaded;
}

int LoadedModule::find_kernel(std::string_view name) const {
  const auto found = program_->kernel_index.find(name);
  return found == program_->kernel_index.end() ? -1 : found->second;
}
int LoadedModule::num_kernels() const { return static_cast<int>(program_->kernels.size()); }
const KernelAttributes& LoadedModule::kernel(int index) const {
  return program_->kernels[static_cast<size_t>(index)]->attributes;
}
const std::map<std::string, ModuleVariable, std::less<>>& LoadedModule::variables() const {
  return program_->variables;
}

}  // namespace tilewright::emulator
