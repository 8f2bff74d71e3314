// Every kind of fault with small programs that must be reported at their line, each beside a near
// twin that must not. observed_programs() is the whole table, in the order of FaultKind:
//
//   kind                                              where its programs stand
//   out of bounds … never written                     observed_memory_programs.cpp
//   divergent, barriers, deadlock, …, illegal         observed_control_programs.cpp
//   copies, descriptors, mbarriers                    observed_async_programs.cpp
//   races                                             observed_race_programs.cpp
//   proxies                                           observed_proxy_programs.cpp
//   wgmma's registers and operands                    observed_wgmma_programs.cpp
//
// observed_programs_test.cpp runs them and demands at least three of each kind.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/machine.h"

namespace tilewright::emulator::test {

struct ObservedProgram {
  FaultKind kind;
  std::string_view name;
  // Bodies between head and tail. `//!` marks the line of the report; where two accesses race,
  // both, since either may come second: the report is at one and names the other. `//?` marks
  // lines of which any may be reported.
  std::string faulty;
  std::string twin;
  uint32_t threads = 32;
  std::string_view says = "";                    // part of the report
  ObserverLevel least = ObserverLevel::kMemory;  // the level that reports it
  uint32_t cluster = 1;                          // blocks, all of one cluster
  std::string_view declarations = "";            // in front of the kernel
};

void PrintTo(const ObservedProgram& program, std::ostream* stream);

// What a body finds: %r1 = tid, %r2 = tile (8 KB of shared memory at a multiple of 1024), %r3 = bar
// (64 bytes of it), %r4 = the thread's word of tile, %r5 = the word of the thread 32 further or
// nearer, %r6 = that of the next or last lane, %p1 = thread 0, %p2 = threads below 32, %rd1 = a
// (4 KB that the host wrote), %rd2 = b (4 KB that nobody wrote), %rd3 = freed memory, %rd4 = the
// thread's word of a, %rd5 = the thread's word of b. Free: %p3…, %r10…, %rd10…, %f1….
std::string observed_text(const ObservedProgram& program, std::string_view body);

// Zeros in the words of up to 128 threads, with a barrier behind.
inline constexpr std::string_view kClearTile = "  st.shared.u32 [%r4], 0;\n  bar.sync 0;\n";

std::vector<ObservedProgram> memory_programs();
std::vector<ObservedProgram> control_programs();
std::vector<ObservedProgram> async_programs();
std::vector<ObservedProgram> race_programs();
std::vector<ObservedProgram> proxy_programs();
std::vector<ObservedProgram> wgmma_programs();
std::vector<ObservedProgram> observed_programs();

}  // namespace tilewright::emulator::test
