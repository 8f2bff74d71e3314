#include "emulator/driver/image.h"

#include <fmt/format.h>

#include <cstring>

namespace tilewright::emulator::driver {
namespace {

constexpr int kNewestPtxVersion = 90;  // of CUDA 13.0
constexpr uint32_t kElfMagic = 0x464c457f;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint32_t kFatbinWrapperMagic = 0x466243b1;
constexpr uint64_t kCompressed = 0x2000 | 0x8000;  // LZ4, Zstandard
constexpr uint64_t kMaxFatbinBytes = uint64_t{1} << 31;

template <class T>
T load(const std::byte* bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

// Entries of a fatbinary: kind at 0, header bytes at 4, payload bytes at 8, flags at 40.
CUresult read_fatbin(const std::byte* fatbin, std::vector<std::string>* ptx, std::string* message) {
  constexpr uint16_t kPtxKind = 1;
  constexpr uint64_t kEntryHeader = 64;
  const uint64_t header = load<uint16_t>(fatbin, 6);
  const uint64_t size = load<uint64_t>(fatbin, 8);
  if (header < 16 || size > kMaxFatbinBytes) {
    *message = "damaged fatbinary header";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const std::byte* entry = fatbin + header;
  uint64_t left = size;
  int compressed = 0;
  while (left >= kEntryHeader) {
    const uint64_t entry_header = load<uint32_t>(entry, 4);
    const uint64_t payload = load<uint64_t>(entry, 8);
    if (entry_header < kEntryHeader || entry_header > left || payload > left - entry_header) {
      *message = "damaged fatbinary entry";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    if (load<uint16_t>(entry, 0) == kPtxKind) {
      if ((load<uint64_t>(entry, 40) & kCompressed) != 0) {
        ++compressed;
      } else {
        const auto* text = reinterpret_cast<const char*>(entry + entry_header);
        ptx->emplace_back(text, strnlen(text, payload));
      }
    }
    entry += entry_header + payload;
    left -= entry_header + payload;
  }
  if (!ptx->empty()) return CUDA_SUCCESS;
  *message = compressed != 0
                 ? "the fatbinary's PTX is compressed: make it with --compress=false"
                 : "the fatbinary holds machine code only; the emulated device needs PTX";
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// Skips blanks and comments.
void skip_blanks(std::string_view* text) {
  while (!text->empty()) {
    if (text->starts_with("//")) {
      text->remove_prefix(std::min(text->find('\n'), text->size()));
    } else if (text->starts_with("/*")) {
      const size_t end = text->find("*/", 2);
      text->remove_prefix(end == std::string_view::npos ? text->size() : end + 2);
    } else if (std::strchr(" \t\r\n\v\f", text->front()) != nullptr) {
      text->remove_prefix(1);
    } else {
      return;
    }
  }
}

// A decimal number of at most six digits, 0 if there is none.
int take_number(std::string_view* text) {
  int value = 0;
  for (int digits = 0; digits < 6 && !text->empty(); ++digits) {
    const char c = text->front();
    if (c < '0' || c > '9') break;
    value = value * 10 + (c - '0');
    text->remove_prefix(1);
  }
  return value;
}

bool take(std::string_view* text, std::string_view word) {
  if (!text->starts_with(word)) return false;
  text->remove_prefix(word.size());
  return true;
}

// Why the device cannot take it, empty if it can.
std::string mismatch(const PtxDirectives& directives, const Arch& arch) {
  const int device = arch.compute_capability();
  if (directives.compute_capability > device) {
    return fmt::format("SM version specified by .target sm_{} is higher than the device's sm_{}",
                       directives.compute_capability, device);
  }
  if (directives.has_suffix && directives.compute_capability != device) {
    return fmt::format(".target sm_{}a is for compute capability {}.{} only, not for sm_{}",
                       directives.compute_capability, directives.compute_capability / 10,
                       directives.compute_capability % 10, device);
  }
  return {};
}

}  // namespace

PtxDirectives read_directives(std::string_view ptx) {
  PtxDirectives directives;
  skip_blanks(&ptx);
  if (!take(&ptx, ".version")) return directives;
  skip_blanks(&ptx);
  const int major = take_number(&ptx);
  if (take(&ptx, ".")) directives.version = major * 10 + take_number(&ptx);
  skip_blanks(&ptx);
  if (!take(&ptx, ".target")) return directives;
  skip_blanks(&ptx);
  if (!take(&ptx, "sm_")) return directives;
  directives.compute_capability = take_number(&ptx);
  directives.has_suffix = ptx.starts_with("a") || ptx.starts_with("f");
  return directives;
}

CUresult read_image(const void* image, std::vector<std::string>* ptx, std::string* message) {
  const auto* bytes = static_cast<const std::byte*>(image);
  const char first = static_cast<char>(bytes[0]);
  if (first == '\0') {
    *message = "the image is empty";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  // Text may be shorter than four bytes; its NUL ends the look.
  const size_t length = strnlen(static_cast<const char*>(image), 4);
  const uint32_t magic = length == 4 ? load<uint32_t>(bytes, 0) : 0;
  if (magic == kElfMagic) {
    *message = "the image is a cubin: machine code, where the emulated device needs PTX";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (magic == kFatbinMagic) return read_fatbin(bytes, ptx, message);
  if (magic == kFatbinWrapperMagic) {
    const auto* fatbin = load<const std::byte*>(bytes, 8);
    if (fatbin == nullptr || load<uint32_t>(fatbin, 0) != kFatbinMagic) {
      *message = "the fatbinary wrapper leads to no fatbinary";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    return read_fatbin(fatbin, ptx, message);
  }
  ptx->emplace_back(static_cast<const char*>(image));
  return CUDA_SUCCESS;
}

CUresult choose_ptx(const std::vector<std::string>& texts, const Arch& arch, size_t* index,
                    std::string* message) {
  int best = -1;
  CUresult result = CUDA_ERROR_INVALID_PTX;
  for (size_t i = 0; i < texts.size(); ++i) {
    const PtxDirectives directives = read_directives(texts[i]);
    if (directives.version > kNewestPtxVersion) {
      *message = fmt::format("Unsupported .version {}.{}; current version is '9.0'",
                             directives.version / 10, directives.version % 10);
      result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
      continue;
    }
    if (std::string reason = mismatch(directives, arch); !reason.empty()) {
      *message = std::move(reason);
      continue;
    }
    if (directives.compute_capability * 2 + directives.has_suffix <= best) continue;
    best = directives.compute_capability * 2 + directives.has_suffix;
    *index = i;
  }
  if (best >= 0) return CUDA_SUCCESS;
  // Of several images none fits the device; of a single text the text is at fault.
  return texts.size() > 1 ? CUDA_ERROR_NO_BINARY_FOR_GPU : result;
}

}  // namespace tilewright::emulator::driver
