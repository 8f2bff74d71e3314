// The table of modifiers: every dotted suffix, its kind and what it sets. Internal to emulator/ptx.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "emulator/ptx/forms.h"

namespace tilewright::emulator::ptx {

// Tokens with this bit are shapes: m, n, k in ten bits each... k lowest.
inline constexpr Token kShapeBit = 0x80000000u;
Token shape_token(Shape shape);

// One suffix can stand for several modifiers (`.lo` of mul, of setp).
struct TokenRange {
  Token first = 0;
  Token count = 0;
};
// Empty if no instruction has this suffix.
TokenRange find_tokens(std::string_view text);

ModifierKind token_kind(Token token);
// As written, without the dot.
std::string token_text(Token token);
// Sets the field of `modifiers` that the token is about. `nth`: how many tokens of its kind came
// before (types, spaces and layouts).
void apply_token(Token token, int nth, Modifiers& modifiers);

}  // namespace tilewright::emulator::ptx
