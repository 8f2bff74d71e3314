// Chooses a kernel: the host's vector variant if there is one, else lane by lane.
#include "emulator/machine/lane_kernels.h"

#include "emulator/instructions/compare.h"
#include "emulator/machine/lane_tables.h"
#include "emulator/machine/scalar_kernels.h"

namespace tilewright::emulator {
namespace {

using ptx::Flag;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Type;

const LaneTable& choose_table() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return lanes_avx512::table();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return lanes_avx2::table();
#endif
  return lanes_plain::table();
}

const LaneTable& host_table() {
  static const LaneTable& kTable = choose_table();
  return kTable;
}

Compare compare_of(ptx::CompareOp op) {
  switch (op) {
    case ptx::CompareOp::kEq:
      return Compare::kEq;
    case ptx::CompareOp::kNe:
      return Compare::kNe;
    case ptx::CompareOp::kLt:
    case ptx::CompareOp::kLo:
      return Compare::kLt;
    case ptx::CompareOp::kLe:
    case ptx::CompareOp::kLs:
      return Compare::kLe;
    case ptx::CompareOp::kGt:
    case ptx::CompareOp::kHi:
      return Compare::kGt;
    case ptx::CompareOp::kGe:
    case ptx::CompareOp::kHs:
      return Compare::kGe;
    case ptx::CompareOp::kEqu:
      return Compare::kEqu;
    case ptx::CompareOp::kNeu:
      return Compare::kNeu;
    case ptx::CompareOp::kLtu:
      return Compare::kLtu;
    case ptx::CompareOp::kLeu:
      return Compare::kLeu;
    case ptx::CompareOp::kGtu:
      return Compare::kGtu;
    case ptx::CompareOp::kGeu:
      return Compare::kGeu;
    case ptx::CompareOp::kNum:
      return Compare::kNum;
    case ptx::CompareOp::kNan:
    case ptx::CompareOp::kNone:
      break;
  }
  return Compare::kNan;
}

constexpr uint32_t kFtzOption = 0x100;

template <class T, class Function>
uint32_t compare_lanes(const void* a, const void* b, Function&& function) {
  uint32_t mask = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const T x = get<T>(static_cast<const Cell<T>*>(a)[lane]);
    const T y = get<T>(static_cast<const Cell<T>*>(b)[lane]);
    mask |= (function(x, y) ? 1u : 0u) << lane;
  }
  return mask;
}

template <class T>
uint32_t compare_plain(const void* a, const void* b, uint32_t o) {
  return compare_lanes<T>(a, b,
                          [o](T x, T y) { return compare(x, y, static_cast<Compare>(o & 0xff)); });
}
template <class T>
uint32_t compare_flushing(const void* a, const void* b, uint32_t o) {
  return compare_lanes<T>(a, b, [o](T x, T y) {
    return compare(x, y, static_cast<Compare>(o & 0xff), (o & kFtzOption) != 0);
  });
}
uint32_t compare_high_f16(const void* a, const void* b, uint32_t o) {
  return compare_lanes<uint32_t>(a, b, [o](uint32_t x, uint32_t y) {
    return compare(high_half<Half>(x), high_half<Half>(y), static_cast<Compare>(o & 0xff),
                   (o & kFtzOption) != 0);
  });
}
uint32_t compare_high_bf16(const void* a, const void* b, uint32_t o) {
  return compare_lanes<uint32_t>(a, b, [o](uint32_t x, uint32_t y) {
    return compare(high_half<Bfloat16>(x), high_half<Bfloat16>(y), static_cast<Compare>(o & 0xff));
  });
}

// testp: b is not used.
template <class T>
uint32_t test_property(const void* a, const void* b, uint32_t o) {
  return compare_lanes<T>(a, b, [o](T x, T) { return testp(x, static_cast<TestProperty>(o)); });
}

TestProperty property_of(ptx::TestProperty property) {
  switch (property) {
    case ptx::TestProperty::kFinite:
      return TestProperty::kFinite;
    case ptx::TestProperty::kInfinite:
      return TestProperty::kInfinite;
    case ptx::TestProperty::kNumber:
      return TestProperty::kNumber;
    case ptx::TestProperty::kNormal:
      return TestProperty::kNormal;
    case ptx::TestProperty::kSubnormal:
      return TestProperty::kSubnormal;
    default:
      return TestProperty::kNotANumber;
  }
}

// The type that a comparison compares: the last one written.
Type compared_type(const Modifiers& m) {
  return m.types[1] == Type::kNone ? m.types[0] : m.types[1];
}

CompareKernel scalar_compare(Type type) {
  switch (type) {
    case Type::kU16:
    case Type::kB16:
      return compare_plain<uint16_t>;
    case Type::kS16:
      return compare_plain<int16_t>;
    case Type::kU32:
    case Type::kB32:
      return compare_plain<uint32_t>;
    case Type::kS32:
      return compare_plain<int32_t>;
    case Type::kU64:
    case Type::kB64:
      return compare_plain<uint64_t>;
    case Type::kS64:
      return compare_plain<int64_t>;
    case Type::kF32:
      return compare_flushing<float>;
    case Type::kF64:
      return compare_plain<double>;
    case Type::kF16:
    case Type::kF16x2:
      return compare_flushing<Half>;
    case Type::kBf16:
    case Type::kBf16x2:
      return compare_plain<Bfloat16>;
    default:
      return nullptr;
  }
}

uint32_t compare_options(const Modifiers& m) {
  return static_cast<uint32_t>(compare_of(m.compare)) | (m.has(Flag::kFtz) ? kFtzOption : 0);
}

}  // namespace

KernelChoice find_kernel(Opcode opcode, const Modifiers& m) {
  if (opcode == Opcode::kSetp || opcode == Opcode::kSet) return {};
  if (LaneKernel hot = host_table().kernel(opcode, m)) return {hot, 0};
  if (opcode == Opcode::kCvt || opcode == Opcode::kCvtPack) return convert_scalar_kernel(opcode, m);
  if (KernelChoice choice = integer_scalar_kernel(opcode, m)) return choice;
  return float_scalar_kernel(opcode, m);
}

CompareChoice find_compare(Opcode opcode, const Modifiers& m) {
  if (opcode == Opcode::kTestp) {
    return {m.type() == Type::kF64 ? test_property<double> : test_property<float>,
            static_cast<uint32_t>(property_of(m.test))};
  }
  if (opcode == Opcode::kSetp) {
    if (CompareKernel hot = host_table().compare(m)) return {hot, 0};
  }
  return {scalar_compare(compared_type(m)), compare_options(m)};
}

CompareChoice find_compare_high(const Modifiers& m) {
  return {compared_type(m) == Type::kF16x2 ? compare_high_f16 : compare_high_bf16,
          compare_options(m)};
}

const LaneHelpers& lane_helpers() { return host_table().helpers; }
const char* lane_kernel_variant() { return host_table().name; }

}  // namespace tilewright::emulator
