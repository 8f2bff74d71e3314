// Declares the functions of <tilewright/emulator.h> in the emulator's own namespace, as
// entry_points.h does for cuda.h's.
#pragma once

#include <type_traits>

#include "tilewright/emulator.h"

namespace tilewright::emulator::driver {

#define TW_EXTENSION(name, type) std::remove_pointer_t<type> name __asm__("tw_emulated_" #name);
#include "emulator/driver/extension.def"
#undef TW_EXTENSION

}  // namespace tilewright::emulator::driver
