#include "emulator/ptx/modifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/check.h"

namespace tilewright::emulator::ptx {
namespace {

struct Row {
  std::string_view text;
  ModifierKind kind;
  uint8_t value;
};

template <class E>
constexpr Row row(std::string_view text, ModifierKind kind, E value) {
  return {text, kind, static_cast<uint8_t>(value)};
}
constexpr Row flag(std::string_view text, Flag value) {
  return row(text, ModifierKind::kFlag, value);
}
constexpr Row hint(std::string_view text) { return {text, ModifierKind::kHint, 0}; }

constexpr auto sorted_rows() {
  using K = ModifierKind;
  std::array rows = {
      flag("NaN", Flag::kNanPropagate),
      flag("abs", Flag::kAbs),
      flag("aligned", Flag::kAligned),
      flag("approx", Flag::kApprox),
      flag("bulk_group", Flag::kBulkGroup),
      flag("L2::cache_hint", Flag::kCacheHint),
      flag("cc", Flag::kCarry),
      flag("mbarrier::complete_tx::bytes", Flag::kCompleteTx),
      flag("expect_tx", Flag::kExpectTx),
      flag("ftz", Flag::kFtz),
      flag("full", Flag::kFull),
      flag("mmio", Flag::kMmio),
      flag("multicast::cluster", Flag::kMulticast),
      flag("nc", Flag::kNonCoherent),
      flag("noComplete", Flag::kNoComplete),
      flag("noftz", Flag::kNoftz),
      flag("noinc", Flag::kNoinc),
      flag("oob", Flag::kOob),
      flag("parity", Flag::kParity),
      flag("read", Flag::kRead),
      flag("relu", Flag::kRelu),
      flag("sat", Flag::kSat),
      flag("satfinite", Flag::kSatfinite),
      flag("shiftamt", Flag::kShiftamt),
      flag("sync", Flag::kSync),
      flag("tensormap", Flag::kTensormap),
      flag("tensormap::generic", Flag::kTensormap),
      flag("tile", Flag::kTile),
      flag("to", Flag::kTo),
      flag("trans", Flag::kTrans),
      flag("uni", Flag::kUni),
      flag("xorsign", Flag::kXorsign),
      hint("L1"),
      hint("L1::evict_first"),
      hint("L1::evict_last"),
      hint("L1::evict_normal"),
      hint("L1::evict_unchanged"),
      hint("L1::no_allocate"),
      hint("L2"),
      hint("L2::128B"),
      hint("L2::256B"),
      hint("L2::64B"),
      hint("L2::evict_first"),
      hint("L2::evict_last"),
      hint("L2::evict_normal"),
      hint("L2::evict_unchanged"),
      hint("mask"),
      hint("sync_restrict::shared::cluster"),
      hint("sync_restrict::shared::cta"),
      row("pred", K::kType, Type::kPred),
      row("b8", K::kType, Type::kB8),
      row("b16", K::kType, Type::kB16),
      row("b32", K::kType, Type::kB32),
      row("b64", K::kType, Type::kB64),
      row("b128", K::kType, Type::kB128),
      row("b1024", K::kType, Type::kB1024),
      row("u8", K::kType, Type::kU8),
      row("u16", K::kType, Type::kU16),
      row("u32", K::kType, Type::kU32),
      row("u64", K::kType, Type::kU64),
      row("s8", K::kType, Type::kS8),
      row("s16", K::kType, Type::kS16),
      row("s32", K::kType, Type::kS32),
      row("s64", K::kType, Type::kS64),
      row("u16x2", K::kType, Type::kU16x2),
      row("s16x2", K::kType, Type::kS16x2),
      row("f16", K::kType, Type::kF16),
      row("f16x2", K::kType, Type::kF16x2),
      row("bf16", K::kType, Type::kBf16),
      row("bf16x2", K::kType, Type::kBf16x2),
      row("tf32", K::kType, Type::kTf32),
      row("f32", K::kType, Type::kF32),
      row("f64", K::kType, Type::kF64),
      row("e4m3", K::kType, Type::kE4m3),
      row("e5m2", K::kType, Type::kE5m2),
      row("e4m3x2", K::kType, Type::kE4m3x2),
      row("e5m2x2", K::kType, Type::kE5m2x2),
      row("const", K::kSpace, StateSpace::kConst),
      row("global", K::kSpace, StateSpace::kGlobal),
      row("local", K::kSpace, StateSpace::kLocal),
      row("param", K::kSpace, StateSpace::kParam),
      row("param::entry", K::kSpace, StateSpace::kParam),
      row("param::func", K::kSpace, StateSpace::kParam),
      row("shared", K::kSpace, StateSpace::kShared),
      row("shared::cta", K::kSpace, StateSpace::kShared),
      row("shared::cluster", K::kSpace, StateSpace::kSharedCluster),
      row("row", K::kLayout, Layout::kRow),
      row("col", K::kLayout, Layout::kCol),
      row("rn", K::kRounding, Rounding::kRn),
      row("rz", K::kRounding, Rounding::kRz),
      row("rm", K::kRounding, Rounding::kRm),
      row("rp", K::kRounding, Rounding::kRp),
      row("rna", K::kRounding, Rounding::kRna),
      row("rni", K::kRounding, Rounding::kRni),
      row("rzi", K::kRounding, Rounding::kRzi),
      row("rmi", K::kRounding, Rounding::kRmi),
      row("rpi", K::kRounding, Rounding::kRpi),
      row("eq", K::kCompare, CompareOp::kEq),
      row("ne", K::kCompare, CompareOp::kNe),
      row("lt", K::kCompare, CompareOp::kLt),
      row("le", K::kCompare, CompareOp::kLe),
      row("gt", K::kCompare, CompareOp::kGt),
      row("ge", K::kCompare, CompareOp::kGe),
      row("lo", K::kCompare, CompareOp::kLo),
      row("ls", K::kCompare, CompareOp::kLs),
      row("hi", K::kCompare, CompareOp::kHi),
      row("hs", K::kCompare, CompareOp::kHs),
      row("equ", K::kCompare, CompareOp::kEqu),
      row("neu", K::kCompare, CompareOp::kNeu),
      row("ltu", K::kCompare, CompareOp::kLtu),
      row("leu", K::kCompare, CompareOp::kLeu),
      row("gtu", K::kCompare, CompareOp::kGtu),
      row("geu", K::kCompare, CompareOp::kGeu),
      row("num", K::kCompare, CompareOp::kNum),
      row("nan", K::kCompare, CompareOp::kNan),
      row("add", K::kOp, Op::kAdd),
      row("min", K::kOp, Op::kMin),
      row("max", K::kOp, Op::kMax),
      row("inc", K::kOp, Op::kInc),
      row("dec", K::kOp, Op::kDec),
      row("and", K::kOp, Op::kAnd),
      row("or", K::kOp, Op::kOr),
      row("xor", K::kOp, Op::kXor),
      row("exch", K::kOp, Op::kExch),
      row("cas", K::kOp, Op::kCas),
      row("popc", K::kOp, Op::kPopc),
      row("ca", K::kCache, CacheOp::kCa),
      row("cg", K::kCache, CacheOp::kCg),
      row("cs", K::kCache, CacheOp::kCs),
      row("lu", K::kCache, CacheOp::kLu),
      row("cv", K::kCache, CacheOp::kCv),
      row("wb", K::kCache, CacheOp::kWb),
      row("wt", K::kCache, CacheOp::kWt),
      row("weak", K::kSemantics, Semantics::kWeak),
      row("volatile", K::kSemantics, Semantics::kVolatile),
      row("relaxed", K::kSemantics, Semantics::kRelaxed),
      row("acquire", K::kSemantics, Semantics::kAcquire),
      row("release", K::kSemantics, Semantics::kRelease),
      row("acq_rel", K::kSemantics, Semantics::kAcqRel),
      row("sc", K::kSemantics, Semantics::kSc),
      row("cta", K::kScope, Scope::kCta),
      row("cluster", K::kScope, Scope::kCluster),
      row("gpu", K::kScope, Scope::kGpu),
      row("gl", K::kScope, Scope::kGpu),
      row("sys", K::kScope, Scope::kSys),
      row("lo", K::kPart, MulPart::kLo),
      row("hi", K::kPart, MulPart::kHi),
      row("wide", K::kPart, MulPart::kWide),
      row("up", K::kShuffle, ShuffleMode::kUp),
      row("down", K::kShuffle, ShuffleMode::kDown),
      row("bfly", K::kShuffle, ShuffleMode::kBfly),
      row("idx", K::kShuffle, ShuffleMode::kIdx),
      row("all", K::kVote, VoteMode::kAll),
      row("any", K::kVote, VoteMode::kAny),
      row("uni", K::kVote, VoteMode::kUni),
      row("ballot", K::kVote, VoteMode::kBallot),
      row("f4e", K::kPermute, PermuteMode::kF4e),
      row("b4e", K::kPermute, PermuteMode::kB4e),
      row("rc8", K::kPermute, PermuteMode::kRc8),
      row("ecl", K::kPermute, PermuteMode::kEcl),
      row("ecr", K::kPermute, PermuteMode::kEcr),
      row("rc16", K::kPermute, PermuteMode::kRc16),
      row("finite", K::kTest, TestProperty::kFinite),
      row("infinite", K::kTest, TestProperty::kInfinite),
      row("number", K::kTest, TestProperty::kNumber),
      row("notanumber", K::kTest, TestProperty::kNotANumber),
      row("normal", K::kTest, TestProperty::kNormal),
      row("subnormal", K::kTest, TestProperty::kSubnormal),
      row("l", K::kDirection, ShiftDirection::kLeft),
      row("r", K::kDirection, ShiftDirection::kRight),
      row("clamp", K::kRange, RangeMode::kClamp),
      row("wrap", K::kRange, RangeMode::kWrap),
      row("global_address", K::kField, TensormapField::kGlobalAddress),
      row("rank", K::kField, TensormapField::kRank),
      row("box_dim", K::kField, TensormapField::kBoxDim),
      row("global_dim", K::kField, TensormapField::kGlobalDim),
      row("global_stride", K::kField, TensormapField::kGlobalStride),
      row("element_stride", K::kField, TensormapField::kElementStride),
      row("elemtype", K::kField, TensormapField::kElemtype),
      row("interleave_layout", K::kField, TensormapField::kInterleaveLayout),
      row("swizzle_mode", K::kField, TensormapField::kSwizzleMode),
      row("fill_mode", K::kField, TensormapField::kFillMode),
      row("v2", K::kVector, 2),
      row("v4", K::kVector, 4),
      row("v8", K::kVector, 8),
      row("x1", K::kNumMatrices, 1),
      row("x2", K::kNumMatrices, 2),
      row("x4", K::kNumMatrices, 4),
      row("1d", K::kTensorDims, 1),
      row("2d", K::kTensorDims, 2),
      row("3d", K::kTensorDims, 3),
      row("4d", K::kTensorDims, 4),
      row("5d", K::kTensorDims, 5),
  };
  std::ranges::sort(rows, {}, &Row::text);
  return rows;
}
constexpr auto kRows = sorted_rows();

constexpr int kShapeBits = 10;
constexpr Token kShapeMask = (Token{1} << kShapeBits) - 1;

// "m16n8k16", "m8n8". Nothing for anything else.
std::optional<Shape> parse_shape(std::string_view text) {
  Shape shape;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto part = [&](char letter, uint16_t& value) {
    if (at == end || *at != letter) return false;
    const auto [next, error] = std::from_chars(at + 1, end, value);
    at = next;
    return error == std::errc() && value > 0 && value <= kShapeMask;
  };
  if (!part('m', shape.m) || !part('n', shape.n)) return std::nullopt;
  if (at != end && !part('k', shape.k)) return std::nullopt;
  if (at != end) return std::nullopt;
  return shape;
}

Shape token_shape(Token token) {
  return {.m = static_cast<uint16_t>((token >> (2 * kShapeBits)) & kShapeMask),
          .n = static_cast<uint16_t>((token >> kShapeBits) & kShapeMask),
          .k = static_cast<uint16_t>(token & kShapeMask)};
}

}  // namespace

Token shape_token(Shape shape) {
  return kShapeBit | (Token{shape.m} << (2 * kShapeBits)) | (Token{shape.n} << kShapeBits) |
         Token{shape.k};
}

TokenRange find_tokens(std::string_view text) {
  const auto range = std::ranges::equal_range(kRows, text, {}, &Row::text);
  if (!range.empty()) {
    return {static_cast<Token>(range.begin() - kRows.begin()), static_cast<Token>(range.size())};
  }
  if (const auto shape = parse_shape(text)) return {shape_token(*shape), 1};
  return {};
}

ModifierKind token_kind(Token token) {
  return (token & kShapeBit) != 0 ? ModifierKind::kShape : kRows[token].kind;
}

std::string token_text(Token token) {
  if ((token & kShapeBit) == 0) return std::string(kRows[token].text);
  const Shape shape = token_shape(token);
  if (shape.k == 0) return fmt::format("m{}n{}", shape.m, shape.n);
  return fmt::format("m{}n{}k{}", shape.m, shape.n, shape.k);
}

void apply_token(Token token, int nth, Modifiers& modifiers) {
  if ((token & kShapeBit) != 0) {
    modifiers.shape = token_shape(token);
    return;
  }
  const Row& r = kRows[token];
  switch (r.kind) {
    case ModifierKind::kFlag:
      return modifiers.set(static_cast<Flag>(r.value));
    case ModifierKind::kHint:
    case ModifierKind::kShape:
      return;
    case ModifierKind::kType:
      modifiers.types.at(static_cast<size_t>(nth)) = static_cast<Type>(r.value);
      return;
    case ModifierKind::kSpace:
      (nth == 0 ? modifiers.space : modifiers.source_space) = static_cast<StateSpace>(r.value);
      return;
    case ModifierKind::kLayout:
      (nth == 0 ? modifiers.layout_a : modifiers.layout_b) = static_cast<Layout>(r.value);
      return;
    case ModifierKind::kRounding:
      modifiers.rounding = static_cast<Rounding>(r.value);
      return;
    case ModifierKind::kCompare:
      modifiers.compare = static_cast<CompareOp>(r.value);
      return;
    case ModifierKind::kOp:
      modifiers.op = static_cast<Op>(r.value);
      return;
    case ModifierKind::kCache:
      modifiers.cache = static_cast<CacheOp>(r.value);
      return;
    case ModifierKind::kSemantics:
      modifiers.semantics = static_cast<Semantics>(r.value);
      return;
    case ModifierKind::kScope:
      modifiers.scope = static_cast<Scope>(r.value);
      return;
    case ModifierKind::kPart:
      modifiers.part = static_cast<MulPart>(r.value);
      return;
    case ModifierKind::kShuffle:
      modifiers.shuffle = static_cast<ShuffleMode>(r.value);
      return;
    case ModifierKind::kVote:
      modifiers.vote = static_cast<VoteMode>(r.value);
      return;
    case ModifierKind::kPermute:
      modifiers.permute = static_cast<PermuteMode>(r.value);
      return;
    case ModifierKind::kTest:
      modifiers.test = static_cast<TestProperty>(r.value);
      return;
    case ModifierKind::kDirection:
      modifiers.direction = static_cast<ShiftDirection>(r.value);
      return;
    case ModifierKind::kRange:
      modifiers.range = static_cast<RangeMode>(r.value);
      return;
    case ModifierKind::kField:
      modifiers.field = static_cast<TensormapField>(r.value);
      return;
    case ModifierKind::kVector:
      modifiers.vector = r.value;
      return;
    case ModifierKind::kNumMatrices:
      modifiers.num_matrices = r.value;
      return;
    case ModifierKind::kTensorDims:
      modifiers.tensor_dims = r.value;
      return;
  }
}

}  // namespace tilewright::emulator::ptx
