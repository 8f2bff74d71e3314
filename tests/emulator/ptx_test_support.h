// Shared by the tests of the PTX front end: parsing a body of a few instructions, reading data.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "emulator/ptx/parser.h"

namespace tilewright::emulator::ptx {

inline constexpr const char* kHeader = ".version 8.7\n.target sm_90a\n.address_size 64\n";

// The module, or a failed test and an empty one.
inline Module parse_or_fail(const std::string& text) {
  Result<Module> module = parse(text);
  EXPECT_TRUE(module.ok()) << module.error().message;
  return module.ok() ? *std::move(module) : Module{};
}

// A module whose entry `k` has registers %p, %h, %r, %f, %d and the body.
inline std::string entry_text(const std::string& body) {
  return std::string(kHeader) +
         ".visible .entry k(.param .u64 k_param_0)\n{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n"
         ".reg .b32 %r<20>;\n.reg .f32 %f<20>;\n.reg .b64 %d<20>;\n" +
         body + "\n}\n";
}
// The line where the body starts.
inline constexpr int kBodyLine = 11;

inline std::string read_ptx(const std::string& name) {
  std::ifstream file(std::string(TW_PTX_DATA) + "/" + name + ".ptx");
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tilewright::emulator::ptx
