// The device templates as text, embedded in the library: what NVRTC is given as named headers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tilewright {

struct EmbeddedFile {
  std::string_view path;  // from templates/: "attention/forward_sm80.cuh"
  const char* begin;
  const char* end;

  std::string_view text() const { return {begin, static_cast<std::size_t>(end - begin)}; }
};

// Every template, sorted by path. The text lives as long as the program.
std::span<const EmbeddedFile> embedded_templates();

}  // namespace tilewright
