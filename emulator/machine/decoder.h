// Turns one PTX function into FunctionCode for one kernel. Every operand becomes a slot (register,
// constant, initial value), every instruction a handler; what has none is an error with file, line
// and text.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/arch.h"
#include "core/check.h"
#include "emulator/machine/code.h"
#include "emulator/machine/lane_kernels.h"
#include "emulator/machine/registers.h"
#include "emulator/ptx/control_flow.h"
#include "emulator/ptx/liveness.h"
#include "tilewright/result.h"

namespace tilewright::emulator {

// What the functions of one kernel share while they are decoded.
struct KernelContext {
  KernelCode& kernel;
  const ptx::Module& module;
  const Program& program;
  const Arch& arch;
  std::map<std::pair<uint64_t, bool>, Slot> constants;
  // Offset of each shared variable from the block's shared byte 0: by module variable, and by
  // (function, its variable).
  std::map<uint32_t, uint64_t> module_shared;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> function_shared;
};

// Of a matrix product's operands and result.
MatrixType matrix_type(ptx::Type type);
AccumulatorType accumulator_type(ptx::Type type);

class FunctionDecoder {
 public:
  FunctionDecoder(KernelContext& context, uint32_t module_index, FunctionCode& code);
  Status decode();

 private:
  using Opcode = ptx::Opcode;
  using Operands = std::span<const ptx::Operand>;
  struct PredicateSource {
    Slot slot = kNoSlot;
    bool negated = false;
  };
  // A destination whose register is wider than what the instruction writes.
  struct Target {
    Slot slot = kNoSlot;
    Slot extended = kNoSlot;  // then: from slot to here, `type` to `bits` bits by its sign
    int bits = 0;
    ptx::Type type = ptx::Type::kNone;
  };

  // ---- frame, operands (decode_operands.cpp) ----
  Slot allocate(uint32_t bytes);
  Slot temporary();  // 64-bit lanes, free again at the next instruction
  Slot constant(uint64_t bits, bool wide);
  Slot initial(InitialKind kind, ptx::SpecialRegister special, uint8_t component, bool wide);
  Slot special(const ptx::Operand& operand, bool wide);
  bool is_wide_register(uint32_t reg) const;
  static bool is_wide(ptx::Type type) { return ptx::type_bits(type) == 64; }
  // The slot of a source of `type`; emits a conversion if the register has another width.
  Slot source(const ptx::Operand& operand, ptx::Type type);
  Slot symbol(const ptx::Operand& operand, bool wide);
  Target target(const ptx::Operand& operand, ptx::Type type);
  void finish(const Target& target);
  Slot destination(const ptx::Operand& operand, ptx::Type type);  // where widths must agree
  Slot predicate_destination(uint32_t reg);
  PredicateSource predicate(const ptx::Operand& operand);
  Slot add_constant(Slot base, uint64_t offset, bool wide);
  Slot convert_width(Slot slot, bool to_wide, bool is_signed);
  uint64_t shared_offset(const ptx::Operand& operand) const;
  const ptx::Variable* variable(const ptx::Operand& operand) const;
  ParamWindow window(const ptx::Operand& operand);

  // ---- emission (decode_function.cpp) ----
  enum class Guarding : uint8_t { kWrapped, kSync, kOwn };
  Instruction& emit(const Instruction& original, Guarding guarding = Guarding::kWrapped);
  Instruction& emit_plain(const Instruction& instruction);
  void start_block(uint32_t source);
  void layout_frame();
  void track_registers(const ptx::Instruction& instruction, bool before);
  void resolve_branches();
  Error unsupported(const std::string& reason = {}) const;
  Status instruction();
  static Instruction make(Handler handler);

  // ---- families ----
  Status arithmetic(Operands o);  // decode_arithmetic.cpp
  Status move(Operands o);
  Status move_vector(Operands o);
  Status comparison(Operands o);
  Status set(Operands o);
  Status predicate_operation(Operands o);
  Status carry(Operands o);
  Status lop3(Operands o);
  ptx::Type source_type(size_t index) const;
  ptx::Type result_type() const;

  Status load(Operands o);  // decode_memory.cpp
  Status store(Operands o);
  Status param_access(const ptx::Operand& address, MemoryForm form, bool is_load);
  Status address_conversion(Operands o);
  Status address_test(Operands o);
  Status atomic(Operands o, bool has_destination);
  Status matrix_move(Operands o);
  Status matrix_product(Operands o);
  Status asynchronous_copy(Operands o);
  // Fills the form's address fields; the slot of the base.
  Result<Slot> address(const ptx::Operand& operand, MemoryForm& form, ptx::StateSpace space);
  std::vector<ptx::Operand> elements_of(const ptx::Operand& operand) const;
  Result<ptx::StateSpace> access_space(const ptx::Operand& address, ptx::StateSpace written) const;

  Status mbarrier(Operands o);  // decode_hopper.cpp
  Status cluster_operation(Operands o);
  Status bulk_copy(Operands o);
  Status tensor_map_edit(Operands o);
  Status warpgroup_product(Operands o);
  // What the full observer needs of wgmma's registers (decode_registers.cpp).
  void number_watched_registers();
  std::vector<uint32_t> watched(const ptx::Operand& operand) const;
  void note_touched(uint32_t first);
  Result<AddressForm> address_form(const ptx::Operand& operand, ptx::StateSpace space);

  Status branch(Operands o);  // decode_control.cpp
  Status indexed_branch(Operands o);
  Status call(Operands o);
  Status return_or_exit();
  Status barrier(Operands o);
  Status lane_exchange(Operands o);
  Status hint(Operands o);
  bool is_ignored() const;
  ParamWindow register_window(Slot reg, bool wide, bool store);

  KernelContext& context_;
  KernelCode& kernel_;
  const ptx::Function& function_;
  uint32_t module_index_;
  FunctionCode& code_;
  ptx::ControlFlow flow_;
  RegisterLayout registers_;
  uint32_t frame_bytes_ = 0;
  Slot scratch_ = kNoSlot;
  std::vector<Slot> temporaries_;
  size_t used_temporaries_ = 0;
  std::map<std::pair<uint32_t, bool>, Slot> initial_slots_;
  std::map<uint32_t, ParamWindow> windows_;  // .param variables of calls
  std::map<uint32_t, uint64_t> local_offsets_;
  const ptx::Instruction* current_ = nullptr;
  uint32_t current_index_ = 0;
  std::vector<uint32_t> watched_of_;  // by register: its number, kNoIndex without
  std::vector<uint32_t> code_of_;     // code index by PTX instruction, one more for the end
};

}  // namespace tilewright::emulator
