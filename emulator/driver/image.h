// What a program hands to cuModuleLoadData: PTX text, an ELF cubin, or a fatbinary of several. The
// emulator runs PTX alone, so an image is good if it holds PTX that this device may take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "emulator/driver/cuda_api.h"

namespace tilewright::emulator::driver {

// ".version 9.0" and ".target sm_90a" of a PTX text; zero where the directive is missing.
struct PtxDirectives {
  int version = 0;             // 90
  int compute_capability = 0;  // 90
  bool has_suffix = false;     // sm_90a, sm_100f: for this compute capability or family only
};
PtxDirectives read_directives(std::string_view ptx);

// The PTX texts within the image. NO_BINARY_FOR_GPU with a message if there is none: a cubin, a
// fatbinary of cubins, or one whose PTX is compressed. INVALID_IMAGE for anything else.
CUresult read_image(const void* image, std::vector<std::string>* ptx, std::string* message);

// The text among them that was made for the newest architecture which the device covers. Messages
// are those of a just-in-time compiler. INVALID_PTX, UNSUPPORTED_PTX_VERSION.
CUresult choose_ptx(const std::vector<std::string>& texts, const Arch& arch, size_t* index,
                    std::string* message);

}  // namespace tilewright::emulator::driver
