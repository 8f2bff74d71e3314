// The little that Tilewright needs to know of an ELF library without loading it: which library it
// says it is, and the linker's fingerprint of it.
#pragma once

#include <string>

#include "tilewright/result.h"

namespace tilewright {

struct ElfIdentity {
  std::string soname;    // "libnvrtc.so.13"; empty if none
  std::string build_id;  // lower-case hex of the GNU build id; empty if none
};

// kNotFound or kIoError if the file cannot be read, kParseError if it is no 64-bit ELF file of this
// machine. Reads a few kilobytes, whatever the file's size.
Result<ElfIdentity> read_elf_identity(const std::string& path);

}  // namespace tilewright
