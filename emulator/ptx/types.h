// The vocabulary of PTX: scalar types, state spaces and every modifier an instruction can carry.
// Enumerators follow the ISA's spelling; kNone always means "not written".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tilewright::emulator::ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kB1024,  // tensormap.replace only
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kU16x2,
  kS16x2,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kTf32,
  kF32,
  kF64,
  kE4m3,
  kE5m2,
  kE4m3x2,
  kE5m2x2,
  kCount,
};

// Storage of one value in bits (pred: 1; tf32: its 32-bit container).
int type_bits(Type type);
bool is_float(Type type);
bool is_signed(Type type);
// "f32", "pred", … ; "" for kNone.
std::string_view to_string(Type type);

// kGeneric: no space written. kShared is both `.shared` and `.shared::cta`.
enum class StateSpace : uint8_t {
  kGeneric,
  kReg,
  kConst,
  kGlobal,
  kLocal,
  kParam,
  kShared,
  kSharedCluster,
};
// "global", "shared::cluster", … ; "" for kGeneric.
std::string_view to_string(StateSpace space);

enum class Rounding : uint8_t { kNone, kRn, kRz, kRm, kRp, kRna, kRni, kRzi, kRmi, kRpi };

enum class CompareOp : uint8_t {
  kNone,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLo,
  kLs,
  kHi,
  kHs,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};

// The operation of atom, red, redux, cp.reduce, bar.red, and the boolean one of setp, set, lop3.
enum class Op : uint8_t {
  kNone,
  kAdd,
  kMin,
  kMax,
  kInc,
  kDec,
  kAnd,
  kOr,
  kXor,
  kExch,
  kCas,
  kPopc
};

enum class CacheOp : uint8_t { kNone, kCa, kCg, kCs, kLu, kCv, kWb, kWt };
enum class Semantics : uint8_t {
  kNone,
  kWeak,
  kVolatile,
  kRelaxed,
  kAcquire,
  kRelease,
  kAcqRel,
  kSc,
};
// kGpu is also membar's `.gl`.
enum class Scope : uint8_t { kNone, kCta, kCluster, kGpu, kSys };

enum class MulPart : uint8_t { kNone, kLo, kHi, kWide };
enum class ShuffleMode : uint8_t { kNone, kUp, kDown, kBfly, kIdx };
enum class VoteMode : uint8_t { kNone, kAll, kAny, kUni, kBallot };
enum class PermuteMode : uint8_t { kNone, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };
enum class TestProperty : uint8_t {
  kNone,
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal,
};
enum class ShiftDirection : uint8_t { kNone, kLeft, kRight };
enum class RangeMode : uint8_t { kNone, kClamp, kWrap };
enum class Layout : uint8_t { kNone, kRow, kCol };
// The field that tensormap.replace edits.
enum class TensormapField : uint8_t {
  kNone,
  kGlobalAddress,
  kRank,
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElemtype,
  kInterleaveLayout,
  kSwizzleMode,
  kFillMode,
};

struct Shape {
  uint16_t m = 0;
  uint16_t n = 0;
  uint16_t k = 0;
  bool operator==(const Shape&) const = default;
};

// Modifiers that are there or not.
enum class Flag : uint8_t {
  kAbs,
  kAligned,
  kApprox,
  kBulkGroup,
  kCacheHint,   // .L2::cache_hint: one more operand, the policy
  kCarry,       // .cc
  kCompleteTx,  // .mbarrier::complete_tx::bytes
  kExpectTx,
  kFtz,
  kFull,
  kMmio,
  kMulticast,  // .multicast::cluster: one more operand, the CTA mask
  kNanPropagate,
  kNoComplete,
  kNoftz,
  kNoinc,
  kNonCoherent,  // ld.global.nc
  kOob,
  kParity,
  kRead,  // cp.async.bulk.wait_group.read
  kRelu,
  kSat,
  kSatfinite,
  kShiftamt,
  kSync,
  kTensormap,  // prefetch.tensormap
  kTile,
  kTo,  // cvta.to
  kTrans,
  kUni,  // bra.uni, call.uni, ret.uni
  kXorsign,
  kCount,
};

// What the dotted suffixes of an instruction say. `types` are in written order, destination first
// where the ISA names several (cvt, set, mma: D A B C).
struct Modifiers {
  uint64_t flags = 0;
  std::array<Type, 4> types{};
  Shape shape;
  Rounding rounding = Rounding::kNone;
  CompareOp compare = CompareOp::kNone;
  Op op = Op::kNone;
  // cvta, ld, st, …: the first space written; copies: destination then source.
  StateSpace space = StateSpace::kGeneric;
  StateSpace source_space = StateSpace::kGeneric;
  CacheOp cache = CacheOp::kNone;
  Semantics semantics = Semantics::kNone;
  Scope scope = Scope::kNone;
  MulPart part = MulPart::kNone;
  ShuffleMode shuffle = ShuffleMode::kNone;
  VoteMode vote = VoteMode::kNone;
  PermuteMode permute = PermuteMode::kNone;
  TestProperty test = TestProperty::kNone;
  ShiftDirection direction = ShiftDirection::kNone;
  RangeMode range = RangeMode::kNone;
  Layout layout_a = Layout::kNone;
  Layout layout_b = Layout::kNone;
  TensormapField field = TensormapField::kNone;
  uint8_t vector = 1;        // .v2 .v4 .v8
  uint8_t num_matrices = 0;  // .x1 .x2 .x4
  uint8_t tensor_dims = 0;   // .1d … .5d

  bool has(Flag flag) const { return ((flags >> static_cast<int>(flag)) & 1) != 0; }
  void set(Flag flag) { flags |= uint64_t{1} << static_cast<int>(flag); }
  Type type() const { return types[0]; }
  bool operator==(const Modifiers&) const = default;
};

// Special registers, %-prefixed. The component or number of one
// that has several is held by the operand.
enum class SpecialRegister : uint8_t {
#define TW_SPECIAL_REGISTER(enumerator, name, type, components) enumerator,
#include "emulator/ptx/special_registers.def"
  kCount,
};
std::string_view to_string(SpecialRegister special);
Type special_register_type(SpecialRegister special);
// 3 (.x .y .z), 1, or more (numbered: %envreg0 …).
int special_register_components(SpecialRegister special);

}  // namespace tilewright::emulator::ptx
