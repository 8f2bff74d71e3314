#include "emulator/ptx/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/check.h"
#include "emulator/ptx/modifiers.h"

namespace tilewright::emulator::ptx {
namespace {

constexpr std::string_view kFormTexts[] = {
#define TW_OPCODE(enumerator, name, family, forms) forms,
#include "emulator/ptx/opcodes.def"
};

struct Abbreviation {
  std::string_view name;
  std::string_view text;
};
// "@name?" gives the "?" to the last slot of the text.
constexpr Abbreviation kAbbreviations[] = {
    {"rnd", "rn,rz,rm,rp"},
    {"rndi", "rni,rzi,rmi,rpi"},
    {"bool", "and,or,xor"},
    {"int", "u16,u32,u64,s16,s32,s64"},
    {"int8", "u8,u16,u32,u64,s8,s16,s32,s64"},
    {"scmp", "eq,ne,lt,le,gt,ge"},
    {"ucmp", "eq,ne,lt,le,gt,ge,cmp:lo,cmp:ls,cmp:hi,cmp:hs"},
    {"fcmp", "eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan"},
    {"mem", "b8,b16,b32,b64,b128,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64"},
    {"dims", "1d,2d,3d,4d,5d"},
    {"ldspace",
     "const,global,local,param,param::entry,param::func,shared,shared::cta,shared::cluster"},
    {"stspace", "global,local,param,param::func,shared,shared::cta,shared::cluster"},
    {"prefetch", "L2::64B,L2::128B,L2::256B~"},
    {"hint",
     "L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate~ "
     "L2::evict_normal,L2::evict_first,L2::evict_last~ L2::64B,L2::128B,L2::256B~ "
     "L2::cache_hint~"},
    {"atom",
     "relaxed,acquire,release,acq_rel? cta,cluster,gpu,sys? "
     "global,shared,shared::cta,shared::cluster? L2::cache_hint~"},
    {"atomv", "relaxed,acquire,release,acq_rel? cta,cluster,gpu,sys? global L2::cache_hint~"},
    {"red",
     "relaxed,release? cta,cluster,gpu,sys? global,shared,shared::cta,shared::cluster? "
     "L2::cache_hint~"},
    {"redv", "relaxed,release? cta,cluster,gpu,sys? global L2::cache_hint~"},
};

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> parts = split(text, " ");
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  return parts;
}

// N of wgmma: every 8 up to 256; integer types take 8, 16, 24, 32 and every 16 from 48.
void add_wgmma_shapes(std::string_view text, std::vector<Token>& tokens) {
  const bool integer = text[4] == '#';
  uint16_t k = 0;
  std::from_chars(text.data() + 6, text.data() + text.size(), k);
  for (uint16_t n = 8; n <= 256; n = static_cast<uint16_t>(n + 8)) {
    if (integer && n > 32 && n % 16 != 0) continue;
    tokens.push_back(shape_token({.m = 64, .n = n, .k = k}));
  }
}

// One alternative of a slot.
void add_token(std::string_view text, std::vector<Token>& tokens) {
  if (text.starts_with("m64n*k") || text.starts_with("m64n#k")) {
    return add_wgmma_shapes(text, tokens);
  }
  const bool compare = text.starts_with("cmp:");
  const bool vote = text.starts_with("vote:");
  if (compare || vote) text.remove_prefix(text.find(':') + 1);
  const TokenRange range = find_tokens(text);
  for (Token token = range.first; token < range.first + range.count; ++token) {
    const ModifierKind kind = token_kind(token);
    const bool fits = range.count == 1 || (kind == ModifierKind::kCompare ? compare
                                           : kind == ModifierKind::kVote  ? vote
                                                                          : !compare && !vote);
    if (fits) return tokens.push_back(token);
  }
  TW_CHECK(false, "opcodes.def: modifier '{}'", text);
}

void add_slots(std::string_view word, Form& form) {
  Slot slot;
  slot.hint = word.ends_with('~');
  slot.optional = slot.hint || word.ends_with('?');
  if (slot.optional) word.remove_suffix(1);
  if (word.starts_with('@')) {
    const auto it = std::ranges::find(kAbbreviations, word.substr(1), &Abbreviation::name);
    TW_CHECK(it != std::end(kAbbreviations), "opcodes.def: abbreviation '{}'", word);
    for (const std::string_view part : words(it->text)) add_slots(part, form);
    form.slots.back().optional |= slot.optional;
    return;
  }
  for (const std::string_view token : split(word, ",")) add_token(token, slot.tokens);
  slot.kind = token_kind(slot.tokens.front());
  form.slots.push_back(std::move(slot));
}

Target parse_target(std::string_view text) {  // "sm_90a"
  Target target;
  std::from_chars(text.data() + 3, text.data() + text.size(), target.compute_capability);
  target.has_suffix = text.ends_with('a');
  return target;
}

OperandSlot parse_operand_slot(std::string_view word) {
  OperandSlot slot;
  slot.kind = word[0];
  slot.optional = word.ends_with('?');
  if (slot.optional) word.remove_suffix(1);
  word.remove_prefix(1);
  if (word.empty()) return slot;
  const char mark = word[0];
  TW_CHECK(std::string_view(".w>*0123").find(mark) != std::string_view::npos,
           "opcodes.def: operand width '{}'", word);
  if (mark == '.') {
    slot.width = Width::kFixed;
    std::from_chars(word.data() + 1, word.data() + word.size(), slot.value);
  } else if (mark == 'w') {
    slot.width = Width::kWide;
  } else if (mark == '>') {
    slot.width = Width::kAtLeast;
  } else if (mark == '*') {
    slot.width = Width::kAny;
  } else {
    slot.width = Width::kTypeIndex;
    slot.value = static_cast<uint8_t>(mark - '0');
  }
  return slot;
}

Form parse_form(Opcode opcode, std::string_view text) {
  Form form;
  form.opcode = opcode;
  const size_t colon = text.rfind(" :") != std::string_view::npos ? text.rfind(" :") + 1 : 0;
  TW_CHECK(text[colon] == ':', "opcodes.def: form '{}'", text);
  for (const std::string_view word : words(text.substr(0, colon))) {
    if (word.starts_with("sm_")) {
      form.first_target = parse_target(word);
    } else {
      add_slots(word, form);
    }
  }
  for (const std::string_view word : words(text.substr(colon + 1))) {
    form.operands.push_back(parse_operand_slot(word));
  }
  return form;
}

using FormTable = std::array<std::vector<Form>, kNumOpcodes>;

FormTable build_forms() {
  FormTable table;
  for (size_t i = 0; i < table.size(); ++i) {
    for (const std::string_view text : split(kFormTexts[i], " / ")) {
      table[i].push_back(parse_form(static_cast<Opcode>(i), text));
    }
  }
  return table;
}

bool is_ordered(ModifierKind kind) {
  return kind == ModifierKind::kType || kind == ModifierKind::kSpace ||
         kind == ModifierKind::kLayout;
}

bool is_integer(Type type) { return type >= Type::kU8 && type <= Type::kS64; }

// Whether every value of the integer type `from` is one of `to`.
bool holds_all(Type to, Type from) {
  if (is_signed(from) && !is_signed(to)) return false;
  const int room = type_bits(to) - (is_signed(to) && !is_signed(from) ? 1 : 0);
  return room >= type_bits(from);
}

// What slots cannot say: a vector access moves at most 128 bits; the order and scope of an mbarrier
// operation come together; an integer conversion has no `.sat` where nothing can saturate.
bool is_consistent(Opcode opcode, const Modifiers& modifiers) {
  if (modifiers.vector > 1 && modifiers.vector * type_bits(modifiers.type()) > 128) return false;
  const bool has_order = modifiers.semantics != Semantics::kNone;
  const bool has_scope = modifiers.scope != Scope::kNone;
  if (family(opcode) == Family::kMbarrier && has_order != has_scope) return false;
  const auto& types = modifiers.types;
  return opcode != Opcode::kCvt || !modifiers.has(Flag::kSat) || !is_integer(types[0]) ||
         !is_integer(types[1]) || !holds_all(types[0], types[1]);
}

// Assigns tokens to the slots of a form.
class SlotFiller {
 public:
  explicit SlotFiller(const Form& form) : form_(form), filled_(form.slots.size(), false) {}

  bool fill(TokenRange range, Modifiers& modifiers) {
    for (size_t i = 0; i < form_.slots.size(); ++i) {
      const Slot& slot = form_.slots[i];
      if (filled_[i]) continue;
      for (Token token = range.first; token < range.first + range.count; ++token) {
        if (token_kind(token) != slot.kind) continue;
        if (std::ranges::find(slot.tokens, token) == slot.tokens.end()) {
          if (is_ordered(slot.kind) && !slot.optional) return false;
          continue;
        }
        filled_[i] = true;
        apply_token(token, count_[static_cast<size_t>(slot.kind)]++, modifiers);
        return true;
      }
    }
    return false;
  }

  bool complete() const {
    for (size_t i = 0; i < form_.slots.size(); ++i) {
      if (!filled_[i] && !form_.slots[i].optional) return false;
    }
    return true;
  }

 private:
  const Form& form_;
  std::vector<bool> filled_;
  std::array<int, static_cast<size_t>(ModifierKind::kTensorDims) + 1> count_{};
};

// More suffixes than any instruction has.
constexpr size_t kMaxSuffixes = 24;

void enumerate_from(const Form& form, size_t slot_index, Modifiers modifiers,
                    std::array<int, 32>& counts, const std::string& text,
                    const std::function<void(const Modifiers&, const std::string&)>& visit) {
  if (slot_index == form.slots.size()) {
    if (is_consistent(form.opcode, modifiers)) visit(modifiers, text);
    return;
  }
  const Slot& slot = form.slots[slot_index];
  if (slot.optional) enumerate_from(form, slot_index + 1, modifiers, counts, text, visit);
  if (slot.hint) return;
  int& count = counts[static_cast<size_t>(slot.kind)];
  for (const Token token : slot.tokens) {
    Modifiers with = modifiers;
    apply_token(token, count, with);
    ++count;
    enumerate_from(form, slot_index + 1, with, counts, text + "." + token_text(token), visit);
    --count;
  }
}

}  // namespace

std::span<const Form> forms(Opcode opcode) {
  static const FormTable table = build_forms();
  TW_CHECK(opcode < Opcode::kCount, "opcode {}", static_cast<int>(opcode));
  return table[static_cast<size_t>(opcode)];
}

Result<std::vector<MatchedForm>> match_suffixes(Opcode opcode, std::string_view suffixes) {
  std::vector<TokenRange> ranges;
  if (!suffixes.empty()) {
    for (const std::string_view text : split(suffixes.substr(1), ".")) {
      const TokenRange range = find_tokens(text);
      if (range.count == 0) {
        if (text.starts_with("im2col")) {
          return make_error(ErrorCode::kParseError, "'.{}': im2col copies are not built", text);
        }
        return make_error(ErrorCode::kParseError, "unknown modifier '.{}'", text);
      }
      ranges.push_back(range);
      if (ranges.size() > kMaxSuffixes) {
        return make_error(ErrorCode::kParseError, "more than {} modifiers", kMaxSuffixes);
      }
    }
  }
  std::vector<MatchedForm> matches;
  for (const Form& form : forms(opcode)) {
    SlotFiller filler(form);
    MatchedForm match{.form = &form, .modifiers = {}};
    const bool fits = std::ranges::all_of(
        ranges, [&](TokenRange range) { return filler.fill(range, match.modifiers); });
    if (fits && filler.complete() && is_consistent(opcode, match.modifiers))
      matches.push_back(match);
  }
  if (matches.empty()) {
    return make_error(ErrorCode::kParseError, "'{}' has no form '{}'", to_string(opcode), suffixes);
  }
  return matches;
}

void enumerate(const Form& form,
               const std::function<void(const Modifiers&, const std::string&)>& visit) {
  std::array<int, 32> counts{};
  enumerate_from(form, 0, {}, counts, std::string(to_string(form.opcode)), visit);
}

Target first_target(const Form& form, const Modifiers& modifiers) {
  // Clusters came with sm_90, and with them everything that reaches over one block.
  const bool reaches_cluster =
      modifiers.space == StateSpace::kSharedCluster ||
      modifiers.source_space == StateSpace::kSharedCluster || modifiers.scope == Scope::kCluster ||
      (family(form.opcode) == Family::kMbarrier && modifiers.semantics == Semantics::kRelaxed);
  if (reaches_cluster && form.first_target.compute_capability < 90) {
    return {.compute_capability = 90, .has_suffix = false};
  }
  return form.first_target;
}

bool is_available(const Form& form, const Modifiers& modifiers, Target target) {
  const Target first = first_target(form, modifiers);
  // A suffix names features of that one compute capability.
  if (first.has_suffix) return target == first;
  return target.compute_capability >= first.compute_capability;
}

}  // namespace tilewright::emulator::ptx
