#include "emulator/ptx/types.h"

#include "core/check.h"

namespace tilewright::emulator::ptx {
namespace {

enum class Class : uint8_t { kUntyped, kUnsigned, kSigned, kFloat };

struct TypeInfo {
  std::string_view name;
  int bits;
  Class type_class;
};

// In the order of Type.
constexpr TypeInfo kTypes[] = {
    {"", 0, Class::kUntyped},       {"pred", 1, Class::kUntyped},    {"b8", 8, Class::kUntyped},
    {"b16", 16, Class::kUntyped},   {"b32", 32, Class::kUntyped},    {"b64", 64, Class::kUntyped},
    {"b128", 128, Class::kUntyped}, {"b1024", 0, Class::kUntyped},   {"u8", 8, Class::kUnsigned},
    {"u16", 16, Class::kUnsigned},  {"u32", 32, Class::kUnsigned},   {"u64", 64, Class::kUnsigned},
    {"s8", 8, Class::kSigned},      {"s16", 16, Class::kSigned},     {"s32", 32, Class::kSigned},
    {"s64", 64, Class::kSigned},    {"u16x2", 32, Class::kUnsigned}, {"s16x2", 32, Class::kSigned},
    {"f16", 16, Class::kFloat},     {"f16x2", 32, Class::kFloat},    {"bf16", 16, Class::kFloat},
    {"bf16x2", 32, Class::kFloat},  {"tf32", 32, Class::kFloat},     {"f32", 32, Class::kFloat},
    {"f64", 64, Class::kFloat},     {"e4m3", 8, Class::kFloat},      {"e5m2", 8, Class::kFloat},
    {"e4m3x2", 16, Class::kFloat},  {"e5m2x2", 16, Class::kFloat},
};
static_assert(std::size(kTypes) == static_cast<size_t>(Type::kCount));

struct SpecialInfo {
  std::string_view name;
  Type type;
  int components;
};
constexpr SpecialInfo kSpecials[] = {
#define TW_SPECIAL_REGISTER(enumerator, name, type, components) {name, type, components},
#include "emulator/ptx/special_registers.def"
};

const TypeInfo& info(Type type) {
  TW_CHECK(type < Type::kCount, "type {}", static_cast<int>(type));
  return kTypes[static_cast<size_t>(type)];
}

const SpecialInfo& info(SpecialRegister special) {
  TW_CHECK(special < SpecialRegister::kCount, "special register {}", static_cast<int>(special));
  return kSpecials[static_cast<size_t>(special)];
}

}  // namespace

int type_bits(Type type) { return info(type).bits; }
bool is_float(Type type) { return info(type).type_class == Class::kFloat; }
bool is_signed(Type type) { return info(type).type_class == Class::kSigned; }
std::string_view to_string(Type type) { return info(type).name; }

std::string_view to_string(StateSpace space) {
  switch (space) {
    case StateSpace::kGeneric:
      return "";
    case StateSpace::kReg:
      return "reg";
    case StateSpace::kConst:
      return "const";
    case StateSpace::kGlobal:
      return "global";
    case StateSpace::kLocal:
      return "local";
    case StateSpace::kParam:
      return "param";
    case StateSpace::kShared:
      return "shared";
    case StateSpace::kSharedCluster:
      return "shared::cluster";
  }
  return "";
}

std::string_view to_string(SpecialRegister special) { return info(special).name; }
Type special_register_type(SpecialRegister special) { return info(special).type; }
int special_register_components(SpecialRegister special) { return info(special).components; }

}  // namespace tilewright::emulator::ptx
