// Opcode: one value per instruction that the emulator knows, all from opcodes.def. A dotted name is
// an opcode where its parts change what the instruction is (mbarrier.init, cp.async.bulk.tensor);
// everything else after the name is a modifier (forms.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright::emulator::ptx {

enum class Opcode : uint8_t {
#define TW_OPCODE(enumerator, name, family, forms) enumerator,
#include "emulator/ptx/opcodes.def"
  kCount,
};
inline constexpr int kNumOpcodes = static_cast<int>(Opcode::kCount);

// The instruction family: which file of emulator/instructions executes it, and how it is counted.
enum class Family : uint8_t {
  kInteger,    // integer, logic, bit field, predicates, moves and selects
  kFloat,      // f16, bf16, f32, f64 arithmetic and comparison
  kConvert,    // cvt, cvt.pack
  kMemory,     // ld, st, prefetch, cvta, mapa, isspacep, hints
  kAtomic,     // atom, red
  kWarp,       // shfl, vote, match, redux, elect, activemask
  kMatrix,     // mma.sync, ldmatrix, stmatrix, movmatrix
  kWgmma,      // wgmma.*
  kAsyncCopy,  // cp.async and its groups
  kBulkCopy,   // cp.async.bulk*, cp.reduce.async.bulk*, st.async, red.async, tensormap.*
  kMbarrier,   // mbarrier.*, cp.async.mbarrier.arrive
  kBarrier,    // bar, barrier, barrier.cluster
  kFence,      // fence, membar
  kControl,    // bra, brx, call, ret, exit, trap, brkpt, nanosleep, griddepcontrol, setmaxnreg, …
};

// "add", "mbarrier.init".
std::string_view to_string(Opcode opcode);
Family family(Opcode opcode);
std::string_view to_string(Family family);

// The opcode whose name is the longest dotted prefix of `mnemonic` ("cp.async.bulk.tensor.2d…"),
// and the length of that prefix. Nothing if no name fits.
struct OpcodeMatch {
  Opcode opcode;
  size_t length;
};
std::optional<OpcodeMatch> find_opcode(std::string_view mnemonic);

}  // namespace tilewright::emulator::ptx
