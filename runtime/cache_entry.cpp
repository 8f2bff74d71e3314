#include "runtime/cache_entry.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/check.h"
#include "core/hash.h"
#include "core/json.h"

namespace tilewright {
namespace {

static_assert(std::endian::native == std::endian::little, "entries are written little-endian");

constexpr std::string_view kMagic = "TWKERNEL";
constexpr size_t kNumSections = 5;

struct Header {
  std::array<char, 8> magic;
  uint32_t format;
  uint32_t zero;
  uint64_t checksum;
};

using Sizes = std::array<uint64_t, kNumSections>;

Json entry_json(const std::string& name, const KernelResources& resources) {
  return Json::object({{"name", name},
                       {"registers", resources.registers},
                       {"barriers", resources.barriers},
                       {"static_shared_bytes", resources.static_shared_bytes},
                       {"spill_store_bytes", resources.spill_store_bytes},
                       {"spill_load_bytes", resources.spill_load_bytes},
                       {"stack_bytes", resources.stack_bytes}});
}

Json metadata_of(const Binary& binary) {
  Json entries = Json::array();
  for (size_t i = 0; i < binary.entry_names.size(); ++i) {
    entries.push(entry_json(binary.entry_names[i], binary.code.resources.at(i)));
  }
  return Json::object({{"key", binary.key},
                       {"target", binary.target},
                       {"family", binary.family},
                       {"title", title_of(binary.source)},
                       {"compiler", binary.code.compiler_version},
                       {"seconds", binary.code.seconds},
                       {"entries", std::move(entries)}});
}

std::string text_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  const std::string* text = member != nullptr ? member->as_string() : nullptr;
  return text != nullptr ? *text : std::string();
}

int64_t int_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  const int64_t* number = member != nullptr ? member->as_int() : nullptr;
  return number != nullptr ? *number : -1;
}

KernelResources resources_of(const Json& entry) {
  return {.registers = static_cast<int>(int_member(entry, "registers")),
          .barriers = static_cast<int>(int_member(entry, "barriers")),
          .static_shared_bytes = int_member(entry, "static_shared_bytes"),
          .spill_store_bytes = int_member(entry, "spill_store_bytes"),
          .spill_load_bytes = int_member(entry, "spill_load_bytes"),
          .stack_bytes = int_member(entry, "stack_bytes")};
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string title_of(std::string_view source) {
  std::string_view line = source.substr(0, source.find('\n'));
  while (!line.empty() && (line.front() == '/' || line.front() == ' ')) line.remove_prefix(1);
  return std::string(line);
}

std::string encode_entry(const Binary& binary) {
  const std::string metadata = metadata_of(binary).dump();
  const std::array<std::string_view, kNumSections> sections = {
      metadata, binary.source, binary.code.ptx, binary.code.cubin, binary.code.log};
  std::string body;
  for (const std::string_view section : sections) append(body, uint64_t{section.size()});
  for (const std::string_view section : sections) body += section;

  Header header{{}, kCacheFormat, 0, checksum64(body)};
  std::memcpy(header.magic.data(), kMagic.data(), kMagic.size());
  std::string bytes;
  bytes.reserve(sizeof header + body.size());
  append(bytes, header);
  return bytes += body;
}

Result<Binary> decode_entry(std::string_view bytes, std::string_view key) {
  const auto damaged = [](std::string_view what) {
    return make_error(ErrorCode::kParseError, "{}", what);
  };
  Header header;
  Sizes sizes;
  if (bytes.size() < sizeof header + sizeof sizes) return damaged("it is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic) {
    return damaged("it is no kernel cache entry");
  }
  if (header.zero != 0) return damaged("its header is malformed");
  if (header.format != kCacheFormat) {
    return make_error(ErrorCode::kNotFound, "stale (format {}, this is {})", header.format,
                      kCacheFormat);
  }
  std::string_view rest = bytes.substr(sizeof header);
  if (checksum64(rest) != header.checksum) return damaged("its checksum is wrong");

  std::memcpy(&sizes, rest.data(), sizeof sizes);
  rest.remove_prefix(sizeof sizes);
  std::array<std::string_view, kNumSections> sections;
  for (size_t i = 0; i < kNumSections; ++i) {
    if (sizes[i] > rest.size()) return damaged("its sections do not fit");
    sections[i] = rest.substr(0, sizes[i]);
    rest.remove_prefix(sizes[i]);
  }
  const Result<Json> metadata = Json::parse(sections[0]);
  if (!metadata.ok()) return damaged("its metadata are malformed");
  if (text_member(*metadata, "key") != key) return damaged("it is another key's entry");

  Binary binary;
  binary.key = key;
  binary.target = text_member(*metadata, "target");
  binary.family = text_member(*metadata, "family");
  binary.source = sections[1];
  binary.code.ptx = sections[2];
  binary.code.cubin = sections[3];
  binary.code.log = sections[4];
  binary.code.compiler_version = text_member(*metadata, "compiler");
  const Json* seconds = metadata->find("seconds");
  binary.code.seconds = seconds != nullptr ? seconds->as_double() : 0;
  const Json* entries = metadata->find("entries");
  if (entries == nullptr || entries->as_array() == nullptr) return damaged("it names no kernel");
  for (const Json& entry : *entries->as_array()) {
    binary.entry_names.push_back(text_member(entry, "name"));
    binary.code.resources.push_back(resources_of(entry));
  }
  return binary;
}

}  // namespace tilewright
