// Decoded kernels: what the interpreter's loop runs. One Instruction is one cache line; operands
// are byte offsets of 32-lane arrays, handlers are resolved, straight-line runs start with a
// block-entry instruction that counts, yields and rejoins diverged lanes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/instructions/mma.h"
#include "emulator/instructions/wgmma_descriptor.h"
#include "emulator/machine/program.h"
#include "emulator/ptx/ast.h"

namespace tilewright::emulator {

struct Warp;
struct Instruction;

// Executes one instruction for the lanes of Warp::mask and returns the next one; null stops the
// warp (Warp::stop says why).
using Handler = const Instruction* (*)(Warp& warp, const Instruction* instruction);

// Pure functions over 32-lane arrays. d never aliases partially: it is one of the sources or
// separate. `options` carries modifiers that the kernel's type does not.
using LaneKernel = void (*)(void* d, const void* a, const void* b, const void* c, uint32_t options);
// Returns one bit per lane.
using CompareKernel = uint32_t (*)(const void* a, const void* b, uint32_t options);

// Where a value lies: a byte offset from the frame's registers, or, with the top bit, from the
// kernel's constants. 32-bit and narrower values are uint32_t[32] (narrow ones zero-extended),
// 64-bit ones uint64_t[32], predicates one uint32_t.
using Slot = uint32_t;
inline constexpr Slot kConstantBit = 0x80000000u;
inline constexpr Slot kNoSlot = 0x7fffffffu;

// 32 lanes of 4 or 8 bytes.
inline constexpr uint32_t kLaneBytes32 = 128;
inline constexpr uint32_t kLaneBytes64 = 256;

struct alignas(64) Instruction {
  Handler handler = nullptr;
  union {
    LaneKernel kernel = nullptr;
    CompareKernel compare;
  };
  Handler inner = nullptr;  // of a guarded instruction: what runs when some lane passes
  Slot d = kNoSlot;
  Slot a = kNoSlot;
  Slot b = kNoSlot;
  Slot c = kNoSlot;
  uint32_t guard = kNoSlot;  // predicate slot; kConstantBit here means negated
  uint32_t options = 0;      // the handler's or kernel's own packing
  // Index of a side table (operand lists, forms, branch targets), a branch's target, or a block.
  uint32_t extra = 0;
  uint32_t source = 0;  // index of the PTX instruction in its function, for reports and counts
};
static_assert(sizeof(Instruction) == 64);

// A value that every frame of a function starts with.
// kShared: the shared address of the block's byte 0. kLocal: the local address of the frame's.
enum class InitialKind : uint8_t { kSpecial, kShared, kLocal };
struct InitialValue {
  InitialKind kind = InitialKind::kSpecial;
  ptx::SpecialRegister special{};
  uint8_t component = 0;
  bool is_wide = false;  // uint64_t lanes
  Slot slot = 0;
};

// A basic block, for counting.
struct CodeBlock {
  uint32_t first_source = 0;  // PTX instructions [first, first + count) of the function
  uint32_t count = 0;
};

// A .param of a call: whole 4-byte words, one slot each.
struct ParamWindow {
  Slot first = kNoSlot;
  uint32_t bytes = 0;
};

struct FunctionCode {
  const ptx::Function* source = nullptr;
  std::vector<Instruction> code;
  uint32_t frame_bytes = 0;  // registers, predicates, parameters, initial values
  uint32_t register_estimate = 0;
  uint32_t local_bytes = 0;  // its .local variables
  std::vector<InitialValue> initial;
  std::vector<ParamWindow> params;
  std::vector<ParamWindow> return_params;
  uint32_t first_block = 0;  // of its blocks in KernelCode::blocks
};

// Moves one element per lane of `mask` between memory and a register.
using LoadMove = void (*)(void* lanes, std::byte* const* from, uint32_t offset, uint32_t mask);
using StoreMove = void (*)(const void* lanes, std::byte* const* to, uint32_t offset, uint32_t mask);

// Operand list of a memory or matrix instruction.
struct MemoryForm {
  LoadMove load = nullptr;
  StoreMove store = nullptr;
  std::vector<Slot> values;   // destinations of a load, sources of a store; kNoSlot: `_`
  int64_t offset = 0;         // added to the address
  int64_t source_offset = 0;  // cp.async: added to the source address
  uint8_t element_bytes = 4;
  uint8_t vector = 1;
  bool value_is_wide = false;  // registers are uint64_t lanes
  bool is_signed = false;
  bool address_is_wide = true;
  ptx::StateSpace space = ptx::StateSpace::kGeneric;
  ptx::StateSpace source_space = ptx::StateSpace::kGeneric;
  ptx::Type type = ptx::Type::kB32;
  ptx::Op op = ptx::Op::kNone;
  bool transposed = false;
};

struct MatrixForm {
  MmaForm form;
  std::vector<Slot> d, a, b, c;
};

// wgmma.mma_async.
struct WarpgroupForm {
  WgmmaForm form;
  std::vector<Slot> d, a;  // a: empty if descriptor_a names it
  Slot descriptor_a = kNoSlot;
  Slot descriptor_b = kNoSlot;
  Slot scale = kNoSlot;  // predicate
  bool scale_negated = false;
  bool negate_a = false, negate_b = false;
  Major major_a = Major::kK, major_b = Major::kK;
  std::vector<uint32_t> watched_d, watched_a;  // KernelCode::watched_registers
};

// An ordinary instruction's access to a register that some wgmma names.
struct TouchedRegister {
  uint32_t watched = 0;  // index of KernelCode::watched_registers
  uint32_t source = 0;   // PTX instruction
};

// One address operand of an instruction that has several.
struct AddressForm {
  Slot base = kNoSlot;
  int64_t offset = 0;
  bool is_wide = true;
  ptx::StateSpace space = ptx::StateSpace::kGeneric;
};

// Bulk copies, st.async, red.async.
struct BulkForm {
  AddressForm destination, source, barrier;  // source: a tensor copy's map comes in `map`
  AddressForm map;
  std::vector<Slot> coordinates;  // of a tensor copy
  std::vector<Slot> values;       // of st.async and red.async
  Slot size = kNoSlot;
  Slot mask = kNoSlot;  // .multicast::cluster
  ptx::Op op = ptx::Op::kNone;
  ptx::Type type = ptx::Type::kB8;
};

// Comparisons with a boolean combination or a packed type, lop3 with a predicate.
struct PredicateForm {
  Slot p = kNoSlot;  // kNoSlot: `_` or absent
  Slot q = kNoSlot;
  Slot third = kNoSlot;
  bool third_negated = false;
  ptx::Op op = ptx::Op::kNone;
  CompareKernel high = nullptr;  // of packed types: q compares the high halves
  uint32_t high_options = 0;
  uint32_t true_bits = 0;  // set: the value of true
  uint32_t table = 0;      // lop3
};

// shfl, vote, match, redux, elect.
struct LaneForm {
  Slot value = kNoSlot;
  Slot b = kNoSlot;
  Slot c = kNoSlot;
  Slot membership = kNoSlot;
  Slot predicate = kNoSlot;  // second destination, or vote's source
  bool negated = false;
  bool is_wide = false;
  bool is_signed = false;
  ptx::ShuffleMode shuffle = ptx::ShuffleMode::kNone;
  ptx::VoteMode vote = ptx::VoteMode::kNone;
  ptx::Op op = ptx::Op::kNone;
};

// mov between a register and the parts of a vector.
struct PieceForm {
  std::vector<Slot> pieces;  // kNoSlot: `_`
  uint8_t piece_bytes = 4;
};

struct CallForm {
  int callee = -1;  // of KernelCode::functions; -1: builtin or indirect
  uint8_t builtin = 0;
  Slot target = kNoSlot;  // indirect: the function's address
  std::vector<ParamWindow> arguments;
  std::vector<ParamWindow> results;
};

struct BranchTable {
  std::vector<uint32_t> targets;
};

// One kernel with every function it can reach, laid out for its own shared memory.
struct KernelCode {
  KernelAttributes attributes;
  const ptx::Module* module = nullptr;
  std::vector<FunctionCode> functions;  // [0] is the entry
  std::map<uint32_t, int> function_of;  // ptx::Module::functions index to functions index
  std::vector<uint8_t> constants;       // splat arrays, 64-byte aligned offsets
  std::vector<MemoryForm> memory_forms;
  std::vector<MatrixForm> matrix_forms;
  std::vector<WarpgroupForm> warpgroup_forms;
  std::vector<BulkForm> bulk_forms;
  std::vector<uint32_t> watched_registers;  // PTX registers of all its functions
  std::vector<std::vector<TouchedRegister>> touched_registers;  // of notes
  std::vector<CallForm> calls;
  std::vector<PredicateForm> predicate_forms;
  std::vector<LaneForm> lane_forms;
  std::vector<PieceForm> piece_forms;
  std::vector<BranchTable> branch_tables;
  std::vector<CodeBlock> blocks;         // of all functions
  std::vector<uint32_t> block_function;  // blocks index to functions index
  bool recursive = false;
  uint32_t stack_bytes = 0;  // .local bytes of the deepest call chain (once round a cycle)
};

struct Program {
  std::unique_ptr<ptx::Module> module;
  std::string file_name;
  std::vector<std::unique_ptr<KernelCode>> kernels;
  std::map<std::string, int, std::less<>> kernel_index;
  std::map<std::string, ModuleVariable, std::less<>> variables;
  std::vector<DeviceAddress> variable_addresses;  // by ptx::Module::variables index, 0: none
};

// The address that a function has as a value.
inline constexpr uint64_t kFunctionBase = 0x10000;
inline constexpr uint64_t function_address(uint32_t module_index) {
  return kFunctionBase + uint64_t{16} * module_index;
}

}  // namespace tilewright::emulator
