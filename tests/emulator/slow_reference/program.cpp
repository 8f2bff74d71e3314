#include "tests/emulator/slow_reference/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::Type;

// What can stand in a program: every result is known to the bit, or is a NaN.
bool is_usable(const Tuple& t) {
  if (t.has(Flag::kApprox) || t.has(Flag::kFull)) return false;
  switch (t.opcode()) {
    case Opcode::kFns:  // undefined for large positions
      return false;
    case Opcode::kMov:
      return t.type() != Type::kB128;
    case Opcode::kCvt:
      return t.type() != Type::kTf32;  // bits 0 to 12 are open
    default:
      return true;
  }
}

struct Choices {
  std::vector<std::vector<const Tuple*>> scalar;  // by opcode, so that set does not crowd out add
  std::vector<const Tuple*> loads;
  std::vector<const Tuple*> stores;
};

Choices collect() {
  Choices choices;
  std::vector<std::vector<const Tuple*>> by_opcode(ptx::kNumOpcodes);
  for (const Tuple& t : all_tuples()) {
    const Group group = group_of(t);
    if (group == Group::kScalar && is_usable(t)) {
      by_opcode[static_cast<size_t>(t.opcode())].push_back(&t);
    }
    if (group != Group::kLoadStore || t.type() == Type::kB128) continue;
    if (t.modifiers.space != ptx::StateSpace::kLocal &&
        t.modifiers.space != ptx::StateSpace::kShared) {
      continue;
    }
    (t.opcode() == Opcode::kSt ? choices.stores : choices.loads).push_back(&t);
  }
  for (auto& list : by_opcode) {
    if (!list.empty()) choices.scalar.push_back(std::move(list));
  }
  return choices;
}

template <class List>
const auto& pick(const List& list, Random& random) {
  return list[random() % list.size()];
}

OperandUse use(const OperandInfo& info, Random& random) {
  OperandUse operand;
  operand.bits = info.bits;
  operand.type = info.type;
  operand.number = static_cast<int>(random() % kBank);
  operand.negated = info.is_predicate() && random() % 4 == 0;
  return operand;
}

Step scalar_step(const Tuple& t, Random& random) {
  Step step;
  step.tuple = &t;
  const Operands operands = operands_of(t, random() % 2 == 0);
  for (const OperandInfo& info : operands.destinations) {
    step.destinations.push_back(use(info, random));
    step.destinations.back().negated = false;
  }
  if (step.destinations.size() > 1 && step.destinations[0].bits == step.destinations[1].bits &&
      step.destinations[0].number == step.destinations[1].number) {
    step.destinations[1].number = (step.destinations[1].number + 1) % kBank;
  }
  for (size_t i = 0; i < operands.sources.size(); ++i) {
    const OperandInfo& info = operands.sources[i];
    OperandUse source = use(info, random);
    const bool last = i > 0 && i + 1 == operands.sources.size();
    const bool divisor = i == 1 && !ptx::is_float(t.type()) &&
                         (t.opcode() == Opcode::kDiv || t.opcode() == Opcode::kRem);
    source.value = info.constant_only ? random() % 256 : random_value(info.type, random);
    if (divisor) source.value |= 1;
    source.constant = info.constant_only || divisor ||
                      (last && random() % 4 == 0 && !constant_text(info.type, 0).empty());
    step.sources.push_back(source);
  }
  step.reads_carry = operands.reads_carry;
  step.writes_carry = operands.writes_carry;
  step.carry_sources = {static_cast<int>(random() % kBank), static_cast<int>(random() % kBank)};
  step.carry_destination = static_cast<int>(random() % kBank);
  if (random() % 3 == 0 && !step.writes_carry) {
    step.guard = static_cast<int>(random() % kBank);
    step.guard_negated = random() % 2 == 0;
  }
  return step;
}

Step memory_step(const Tuple& t, bool store, Random& random) {
  Step step;
  step.kind = store ? Step::Kind::kStore : Step::Kind::kLoad;
  step.tuple = &t;
  step.shared = t.modifiers.space == ptx::StateSpace::kShared;
  const int type_bits = ptx::type_bits(t.type());
  const int bytes = type_bits / 8 * t.modifiers.vector;
  step.offset = static_cast<int>(random() % static_cast<uint64_t>(kScratch / bytes)) * bytes;
  const bool wider = !ptx::is_float(t.type()) && type_bits < 64 && random() % 2 == 0;
  const int bits = std::max(16, wider ? 2 * type_bits : type_bits);
  const auto first = static_cast<int>(random() % kBank);
  for (int e = 0; e < t.modifiers.vector; ++e) {
    OperandUse operand;
    operand.bits = bits;
    operand.type = t.type();
    operand.number = (first + e) % kBank;
    (store ? step.sources : step.destinations).push_back(operand);
  }
  if (random() % 3 == 0) step.guard = static_cast<int>(random() % kBank);
  return step;
}

std::string name(const OperandUse& operand) {
  if (operand.constant) {
    const std::string text = constant_text(operand.type, operand.value);
    return text.empty() ? std::to_string(operand.value) : text;
  }
  return fmt::format("{}{}", operand.negated ? "!" : "",
                     register_name(operand.bits, operand.number));
}

uint64_t value_of(const OperandUse& operand, ThreadState& state) {
  if (operand.constant) return low_bits(operand.value, ptx::type_bits(operand.type));
  const uint64_t value = state.at(operand.bits, operand.number);
  if (operand.bits == 1) return value ^ (operand.negated ? 1 : 0);
  return low_bits(value, ptx::type_bits(operand.type));
}

// The open bits of a NaN are made known: replaced by the canonical one, in f32 and f64 results.
bool needs_canonical(const Step& step) {
  if (step.kind != Step::Kind::kScalar || step.destinations[0].bits < 16) return false;
  return ptx::is_float(step.destinations[0].type);
}

std::string canonical_text(const OperandUse& d) {
  const std::string reg = register_name(d.bits, d.number);
  switch (d.type) {
    case Type::kF32:
      return fmt::format("setp.nan.f32 %p9, {0}, {0};\n@%p9 mov.b32 {0}, 0x7fffffff;\n", reg);
    case Type::kF64:
      return fmt::format("setp.nan.f64 %p9, {0}, {0};\n@%p9 mov.b64 {0}, 0x7fffffffffffffff;\n",
                         reg);
    case Type::kF16:
    case Type::kBf16:
      return fmt::format("setp.nan.{1} %p9, {0}, {0};\n@%p9 mov.b16 {0}, 0x7fff;\n", reg,
                         ptx::to_string(d.type));
    case Type::kF16x2:
    case Type::kBf16x2:
      return fmt::format(
          "mov.b32 {{%h8, %h9}}, {0};\nsetp.nan.{1} %p9, %h8, %h8;\n@%p9 mov.b16 %h8, 0x7fff;\n"
          "setp.nan.{1} %p9, %h9, %h9;\n@%p9 mov.b16 %h9, 0x7fff;\nmov.b32 {0}, {{%h8, %h9}};\n",
          reg, d.type == Type::kF16x2 ? "f16" : "bf16");
    default:
      return "";
  }
}

void make_canonical(const OperandUse& d, ThreadState& state) {
  uint64_t& value = state.at(d.bits, d.number);
  switch (d.type) {
    case Type::kF32:
    case Type::kF64:
    case Type::kF16:
    case Type::kBf16: {
      const Format format = format_of(d.type);
      if (is_nan(format, value)) value = format.canonical_nan();
      return;
    }
    case Type::kF16x2:
    case Type::kBf16x2: {
      const Format format = format_of(d.type);
      for (const int shift : {0, 16}) {
        if (!is_nan(format, low_bits(value >> shift, 16))) continue;
        value = (value & ~(uint64_t{0xffff} << shift)) | format.canonical_nan() << shift;
      }
      return;
    }
    default:
      return;
  }
}

}  // namespace

uint64_t& ThreadState::at(int bits, int number) {
  const auto n = static_cast<size_t>(number);
  return bits == 1 ? flag[n] : bits <= 16 ? narrow[n] : bits <= 32 ? word[n] : wide[n];
}

ThreadState random_thread(Random& random) {
  ThreadState state;
  const auto fill = [&](auto& bank, std::initializer_list<Type> types) {
    for (uint64_t& value : bank)
      value = random_value(types.begin()[random() % types.size()], random);
  };
  fill(state.narrow, {Type::kF16, Type::kBf16, Type::kS16});
  fill(state.word, {Type::kF32, Type::kS32, Type::kF16x2, Type::kBf16x2});
  fill(state.wide, {Type::kF64, Type::kS64});
  fill(state.flag, {Type::kPred});
  for (uint8_t& byte : state.local) byte = static_cast<uint8_t>(random());
  for (uint8_t& byte : state.shared) byte = static_cast<uint8_t>(random());
  return state;
}

std::string Step::text() const {
  std::string all;
  if (skip_to >= 0) all += fmt::format("@%p{} bra STEP{};\n", skip_if, skip_to);
  const std::string prefix =
      guard < 0 ? "" : fmt::format("@{}%p{} ", guard_negated ? "!" : "", guard);
  if (kind != Kind::kScalar) {
    const auto& values = kind == Kind::kLoad ? destinations : sources;
    std::string list = values.size() > 1 ? "{" : "";
    for (size_t i = 0; i < values.size(); ++i)
      list += fmt::format("{}{}", i > 0 ? ", " : "", name(values[i]));
    if (values.size() > 1) list += "}";
    const std::string address = fmt::format("[{}+{}]", shared ? "%shared" : "%local", offset);
    return all + prefix + tuple->mnemonic + " " +
           (kind == Kind::kLoad ? list + ", " + address : address + ", " + list) + ";\n";
  }
  std::vector<std::string> to;
  std::vector<std::string> from;
  for (const OperandUse& d : destinations) to.push_back(name(d));
  for (const OperandUse& s : sources) from.push_back(name(s));
  if (reads_carry) {
    all += fmt::format("add.cc.u32 %r9, %r{}, %r{};\n", carry_sources[0], carry_sources[1]);
  }
  all += spell(*tuple, to, from, prefix) + "\n";
  if (writes_carry) all += fmt::format("addc.u32 %r{}, 0, 0;\n", carry_destination);
  if (needs_canonical(*this)) all += canonical_text(destinations[0]);
  return all;
}

void Step::execute(ThreadState& state) const {
  const bool runs = guard < 0 || (state.at(1, guard) != 0) != guard_negated;
  const int type_bytes = ptx::type_bits(tuple->type()) / 8;
  auto& memory = shared ? state.shared : state.local;
  if (kind == Kind::kLoad) {
    for (size_t e = 0; runs && e < destinations.size(); ++e) {
      uint64_t value = 0;
      for (int i = 0; i < type_bytes; ++i) {
        value |=
            uint64_t{memory[static_cast<size_t>(offset + static_cast<int>(e) * type_bytes + i)]}
            << (8 * i);
      }
      if (ptx::is_signed(tuple->type())) {
        value = static_cast<uint64_t>(signed_value(value, 8 * type_bytes));
      }
      state.at(destinations[e].bits, destinations[e].number) =
          low_bits(value, destinations[e].bits);
    }
    return;
  }
  if (kind == Kind::kStore) {
    for (size_t e = 0; runs && e < sources.size(); ++e) {
      const uint64_t value = state.at(sources[e].bits, sources[e].number);
      for (int i = 0; i < type_bytes; ++i) {
        memory[static_cast<size_t>(offset + static_cast<int>(e) * type_bytes + i)] =
            static_cast<uint8_t>(value >> (8 * i));
      }
    }
    return;
  }
  if (runs) {
    Sources values;
    for (size_t i = 0; i < sources.size(); ++i) values.value[i] = value_of(sources[i], state);
    if (reads_carry) {
      const uint64_t sum = low_bits(state.word[static_cast<size_t>(carry_sources[0])], 32) +
                           low_bits(state.word[static_cast<size_t>(carry_sources[1])], 32);
      values.carry = sum >> 32 != 0;
    }
    uint64_t carry_out = 0;
    for (const Part& part : evaluate(*tuple, values)) {
      if (part.index == kCarryOut) {
        carry_out = part.bits;
        continue;
      }
      if (static_cast<size_t>(part.index) >= destinations.size()) continue;
      const OperandUse& d = destinations[static_cast<size_t>(part.index)];
      const int width = std::min(part.width, d.bits - part.offset);
      const uint64_t bits = part.check == Check::kNan ? part.format.canonical_nan() : part.bits;
      uint64_t& reg = state.at(d.bits, d.number);
      const uint64_t mask = low_bits(~uint64_t{0}, width) << part.offset;
      reg = (reg & ~mask) | (bits << part.offset & mask);
    }
    if (writes_carry) state.word[static_cast<size_t>(carry_destination)] = carry_out;
  }
  if (needs_canonical(*this)) make_canonical(destinations[0], state);
}

RandomProgram RandomProgram::make(Random& random, int length) {
  static const Choices choices = collect();
  RandomProgram program;
  for (int i = 0; i < length; ++i) {
    const uint64_t kind = random() % 10;
    if (kind == 0) {
      program.steps.push_back(memory_step(*pick(choices.loads, random), false, random));
    } else if (kind == 1) {
      program.steps.push_back(memory_step(*pick(choices.stores, random), true, random));
    } else {
      program.steps.push_back(scalar_step(*pick(pick(choices.scalar, random), random), random));
    }
    if (random() % 10 == 0) {
      program.steps.back().skip_to = std::min(length, i + 1 + static_cast<int>(random() % 6));
      program.steps.back().skip_if = static_cast<int>(random() % kBank);
    }
  }
  return program;
}

std::string RandomProgram::text(size_t length) const {
  std::string all;
  for (size_t i = 0; i < length; ++i) {
    all += fmt::format("STEP{}:\n{}", i, steps[i].text());
  }
  for (size_t i = length; i <= steps.size(); ++i) all += fmt::format("STEP{}:\n", i);
  return all;
}

void RandomProgram::execute(ThreadState& state, size_t length) const {
  for (size_t i = 0; i < length;) {
    const Step& step = steps[i];
    if (step.skip_to >= 0 && state.at(1, step.skip_if) != 0) {
      i = static_cast<size_t>(step.skip_to);
      continue;
    }
    step.execute(state);
    ++i;
  }
}

}  // namespace tilewright::emulator::slow
