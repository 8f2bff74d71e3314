// The handlers of decoded instructions, for the decoder. Each comment says what the operands and
// side tables hold.
#pragma once

#include "emulator/machine/code.h"
#include "emulator/machine/warp.h"

namespace tilewright::emulator::execute {

// ---- structure ----
// First of every basic block. extra: index in KernelCode::blocks; options: its instructions.
const Instruction* enter_block(Warp& warp, const Instruction* i);
// A guarded instruction that cannot stop or branch: `inner` runs for the lanes that pass.
const Instruction* guarded(Warp& warp, const Instruction* i);
// The same for .sync instructions, which may have to wait; the next instruction starts a block.
const Instruction* guarded_sync(Warp& warp, const Instruction* i);

// ---- arithmetic ----
const Instruction* alu32(Warp& warp, const Instruction* i);   // d = kernel(a, b, c), 4-byte lanes
const Instruction* alu64(Warp& warp, const Instruction* i);   // 8-byte lanes of d
const Instruction* alu128(Warp& warp, const Instruction* i);  // mov.b128: two 8-byte halves
// d = compare(a, b); c: second destination, the complement, or kNoSlot.
const Instruction* compare(Warp& warp, const Instruction* i);

// setp with a boolean operation or a packed type: extra: PredicateForm.
const Instruction* compare_combined(Warp& warp, const Instruction* i);
// set: true_bits of the PredicateForm or 0; packed: per half.
const Instruction* set_lanes(Warp& warp, const Instruction* i);
// Predicate logic: d = a op b; options: a ptx::Op, bit 8 and 9 negate a and b.
const Instruction* predicate_logic(Warp& warp, const Instruction* i);
// add.cc, addc, sub.cc, subc, mad.cc, madc. options: CarryOption bits.
const Instruction* carry_arithmetic(Warp& warp, const Instruction* i);
// bfi has four sources: extra is the slot of the fourth.
const Instruction* bit_field_insert(Warp& warp, const Instruction* i);
// lop3.{and,or} d|p: extra : PredicateForm.
const Instruction* lop3_predicate(Warp& warp, const Instruction* i);
// Pieces of a register: mov.b32 {lo, hi}, r and back. options: bytes of the whole; extra:
// PieceForm.
const Instruction* unpack(Warp& warp, const Instruction* i);
const Instruction* pack(Warp& warp, const Instruction* i);
// %clock and similar: options: ptx::SpecialRegister.
const Instruction* read_special(Warp& warp, const Instruction* i);
// Register tracking under the memory observer: d: slot of the written mask, extra: the register.
const Instruction* mark_written(Warp& warp, const Instruction* i);
// options of check_written: 0 if every running lane must have been written.
inline constexpr uint32_t kOneWrittenLane = 1;
const Instruction* check_written(Warp& warp, const Instruction* i);

enum CarryOption : uint32_t {
  kCarryWide = 1,  // 64-bit
  kCarryIn = 2,    // addc, subc, madc
  kCarryOut = 4,   // .cc
  kCarrySubtract = 8,
  kCarryMultiply = 16,  // mad: a·b + c
  kCarryHigh = 32,      // mad.hi
  kCarrySigned = 64,    // of the product
};

// ---- control; these evaluate their guard themselves ----
const Instruction* nothing(Warp& warp, const Instruction* i);
const Instruction* branch_always(Warp& warp, const Instruction* i);   // extra: target
const Instruction* branch(Warp& warp, const Instruction* i);          // c: rejoin or kNoSlot
const Instruction* branch_indexed(Warp& warp, const Instruction* i);  // a: index, extra: table
const Instruction* call(Warp& warp, const Instruction* i);            // extra: CallForm
const Instruction* ret(Warp& warp, const Instruction* i);
const Instruction* exit_thread(Warp& warp, const Instruction* i);
const Instruction* end_of_code(Warp& warp, const Instruction* i);
const Instruction* trap(Warp& warp, const Instruction* i);
const Instruction* nanosleep(Warp& warp, const Instruction* i);

// ---- barriers ----
const Instruction* mbarrier_init_fence(Warp& warp, const Instruction* i);
const Instruction* memory_fence(Warp& warp, const Instruction* i);  // fence, membar
// a: number, b: threads (kNoSlot: all), d: destination, c: source predicate; options:
// BarrierOption.
const Instruction* barrier(Warp& warp, const Instruction* i);
const Instruction* warp_sync(Warp& warp, const Instruction* i);  // a: mask
enum BarrierOption : uint32_t {
  kBarrierAligned = 1,
  kBarrierArrive = 2,
  kBarrierReduce = 4,  // operation in bits 8…
  kBarrierNegated = 8,
  kBarrierRelaxed = 16,
};

// ---- memory; extra: MemoryForm, a: address ----
const Instruction* load_param(Warp& warp, const Instruction* i);  // of an entry, constant offset
const Instruction* load_global(Warp& warp, const Instruction* i);
const Instruction* store_global(Warp& warp, const Instruction* i);
const Instruction* load_shared(Warp& warp, const Instruction* i);
const Instruction* store_shared(Warp& warp, const Instruction* i);
const Instruction* load_any(Warp& warp, const Instruction* i);  // generic, local, const, param
const Instruction* store_any(Warp& warp, const Instruction* i);
// .param words of a call: values of MemoryForm to and from slot `b` + offset.
const Instruction* load_window(Warp& warp, const Instruction* i);
const Instruction* store_window(Warp& warp, const Instruction* i);
// atom (d) and red; b, c: operands.
const Instruction* atomic(Warp& warp, const Instruction* i);
// cvta.param, cvta.to.param (options 1).
const Instruction* convert_address(Warp& warp, const Instruction* i);
const Instruction* is_space(Warp& warp, const Instruction* i);  // options: StateSpace

// ---- lanes of a warp ----
const Instruction* shuffle(Warp& warp, const Instruction* i);  // extra: LaneForm
const Instruction* vote(Warp& warp, const Instruction* i);
const Instruction* match(Warp& warp, const Instruction* i);
const Instruction* reduce_lanes(Warp& warp, const Instruction* i);
const Instruction* elect(Warp& warp, const Instruction* i);
const Instruction* active_mask(Warp& warp, const Instruction* i);

// ---- matrices ----
const Instruction* load_matrix(Warp& warp, const Instruction* i);  // extra: MemoryForm
const Instruction* store_matrix(Warp& warp, const Instruction* i);
const Instruction* move_matrix(Warp& warp, const Instruction* i);
const Instruction* multiply_matrices(Warp& warp, const Instruction* i);  // extra: MatrixForm

// ---- cp.async ----
// a: destination, b: source, c: source size or predicate; extra: MemoryForm; options: CopyOption.
const Instruction* copy_async(Warp& warp, const Instruction* i);
const Instruction* copy_commit(Warp& warp, const Instruction* i);
const Instruction* copy_wait(Warp& warp, const Instruction* i);  // options: newest groups
const Instruction* copy_wait_all(Warp& warp, const Instruction* i);
enum CopyOption : uint32_t { kCopySize = 1, kCopyIgnore = 2, kCopyNegated = 4 };

// ---- mbarrier; a: address, extra: MemoryForm, b: count, bytes, parity or state, d: result ----
const Instruction* mbarrier_init(Warp& warp, const Instruction* i);
const Instruction* mbarrier_inval(Warp& warp, const Instruction* i);
const Instruction* mbarrier_transactions(Warp& warp, const Instruction* i);  // options: kind
const Instruction* mbarrier_arrive(Warp& warp, const Instruction* i);
const Instruction* mbarrier_test(Warp& warp, const Instruction* i);
const Instruction* mbarrier_try(Warp& warp, const Instruction* i);
const Instruction* mbarrier_pending_count(Warp& warp, const Instruction* i);  // a: state
const Instruction* mbarrier_after_copies(Warp& warp, const Instruction* i);
enum MbarrierOption : uint32_t {
  kMbarrierParity = 1,
  kMbarrierExpect = 2,
  kMbarrierDrop = 4,
  kMbarrierNoComplete = 8,
  kMbarrierComplete = 16,     // complete_tx, else expect_tx
  kMbarrierNoIncrement = 32,  // cp.async.mbarrier.arrive.noinc
  kMbarrierRelaxed = 64,
};

// ---- clusters, registers, fences ----
const Instruction* map_address(Warp& warp, const Instruction* i);  // d = mapa(a, b)
const Instruction* rank_of_address(Warp& warp, const Instruction* i);
enum MapOption : uint32_t { kMapWide = 1, kMapGeneric = 2 };
// options: kBarrierAligned, kBarrierRelaxed
const Instruction* cluster_arrive(Warp& warp, const Instruction* i);
const Instruction* cluster_wait(Warp& warp, const Instruction* i);
const Instruction* set_max_registers(Warp& warp, const Instruction* i);  // options: count
inline constexpr uint32_t kRegistersIncrease = 0x400;
const Instruction* grid_wait(Warp& warp, const Instruction* i);  // griddepcontrol
const Instruction* grid_launch_dependents(Warp& warp, const Instruction* i);
// atom.b128; extra: MemoryForm
const Instruction* atomic_wide(Warp& warp, const Instruction* i);
const Instruction* fence_async_proxy(Warp& warp, const Instruction* i);

// ---- tensor maps; extra: BulkForm with the map as its destination ----
// options: field, ordinal << 8
const Instruction* tensor_map_replace(Warp& warp, const Instruction* i);
const Instruction* tensor_map_copy(Warp& warp, const Instruction* i);
const Instruction* tensor_map_release(Warp& warp, const Instruction* i);
const Instruction* tensor_map_acquire(Warp& warp, const Instruction* i);

// ---- bulk copies; extra: BulkForm ----
const Instruction* bulk_load(Warp& warp, const Instruction* i);
const Instruction* bulk_store(Warp& warp, const Instruction* i);
const Instruction* bulk_push(Warp& warp, const Instruction* i);
const Instruction* store_async(Warp& warp, const Instruction* i);
const Instruction* bulk_commit(Warp& warp, const Instruction* i);
const Instruction* bulk_wait(Warp& warp, const Instruction* i);  // options: newest << 1 | read

// ---- wgmma ----
const Instruction* touch_registers(Warp& warp, const Instruction* i);  // extra: a note
const Instruction* wgmma_fence(Warp& warp, const Instruction* i);
const Instruction* wgmma_multiply(Warp& warp, const Instruction* i);  // extra: WarpgroupForm
const Instruction* wgmma_commit(Warp& warp, const Instruction* i);
const Instruction* wgmma_wait(Warp& warp, const Instruction* i);  // options: newest

}  // namespace tilewright::emulator::execute
