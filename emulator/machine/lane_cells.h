// How a value of type T lies in a lane of a register: 64-bit values in uint64_t cells, all others
// in uint32_t cells, narrow ones zero-extended.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "emulator/instructions/float.h"
#include "emulator/instructions/types.h"

namespace tilewright::emulator {

template <class T>
using Cell = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
TW_EMULATOR_INLINE T get(Cell<T> cell) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(cell);
  } else if constexpr (sizeof(T) == sizeof(Cell<T>)) {
    return std::bit_cast<T>(cell);
  } else if constexpr (sizeof(T) == 2) {
    return T{static_cast<uint16_t>(cell)};
  } else {
    return T{static_cast<uint8_t>(cell)};
  }
}

template <class T>
TW_EMULATOR_INLINE Cell<T> put(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Cell<T>>(static_cast<std::make_unsigned_t<T>>(value));
  } else if constexpr (sizeof(T) == sizeof(Cell<T>)) {
    return std::bit_cast<Cell<T>>(value);
  } else {
    return value.bits;
  }
}

}  // namespace tilewright::emulator
