#include "runtime/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/files.h"

namespace tilewright {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

// No table of a sane library is larger; guards against reading gigabytes of a damaged one.
constexpr uint64_t kMaxTableBytes = uint64_t{4} << 20;

class File {
 public:
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  // The bytes at [offset, offset + size); nullopt if the file has fewer.
  std::optional<std::string> read(uint64_t offset, uint64_t size) const {
    if (size > kMaxTableBytes || offset > uint64_t{INT64_MAX} - size) return std::nullopt;
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < size) {
      const ssize_t count =
          pread(descriptor_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      done += static_cast<size_t>(count);
    }
    return bytes;
  }

 private:
  int descriptor_;
};

template <class T>
std::vector<T> as_array(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::string build_id_of(const std::string& notes) {
  size_t offset = 0;
  while (offset + sizeof(Elf64_Nhdr) <= notes.size()) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + offset, sizeof note);
    const auto padded = [](uint32_t size) { return (size_t{size} + 3) / 4 * 4; };
    const size_t name = offset + sizeof note;
    const size_t value = name + padded(note.n_namesz);
    if (value + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        notes.compare(name, 4, std::string_view("GNU\0", 4)) == 0) {
      std::string hex;
      for (const char byte : notes.substr(value, note.n_descsz)) {
        hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      return hex;
    }
    offset = value + padded(note.n_descsz);
  }
  return {};
}

// The file offset of a virtual address.
std::optional<uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::string soname_of(const File& file, const std::vector<Elf64_Phdr>& segments,
                      const std::string& dynamic) {
  uint64_t strings = 0, name = 0;
  bool named = false;
  for (const Elf64_Dyn& entry : as_array<Elf64_Dyn>(dynamic)) {
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_SONAME) {
      name = entry.d_un.d_val;
      named = true;
    }
  }
  const std::optional<uint64_t> offset = file_offset(segments, strings + name);
  if (!named || !offset) return {};
  const std::optional<std::string> text = file.read(*offset, 64);
  return text ? std::string(text->c_str()) : std::string();
}

}  // namespace

Result<ElfIdentity> read_elf_identity(const std::string& path) {
  const File file(path);
  if (!file.is_open()) return system_error("cannot open", path);
  const auto malformed = [&path] {
    return make_error(ErrorCode::kParseError, "'{}' is not a shared library of this machine", path);
  };
  const std::optional<std::string> header_bytes = file.read(0, sizeof(Elf64_Ehdr));
  if (!header_bytes) return malformed();
  Elf64_Ehdr header;
  std::memcpy(&header, header_bytes->data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kMachine || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return malformed();
  }
  const std::optional<std::string> table =
      file.read(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (!table) return malformed();

  const std::vector<Elf64_Phdr> segments = as_array<Elf64_Phdr>(*table);
  ElfIdentity identity;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_NOTE && segment.p_type != PT_DYNAMIC) continue;
    const std::optional<std::string> bytes = file.read(segment.p_offset, segment.p_filesz);
    if (!bytes) return malformed();
    if (segment.p_type == PT_DYNAMIC) {
      identity.soname = soname_of(file, segments, *bytes);
    } else if (identity.build_id.empty()) {
      identity.build_id = build_id_of(*bytes);
    }
  }
  return identity;
}

}  // namespace tilewright
