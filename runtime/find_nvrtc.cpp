// Where NVRTC may be, in order, decided without loading anything: which library the loader would
// take is read from its folders and its cache.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "core/check.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/text.h"
#include "runtime/elf.h"
#include "runtime/nvrtc.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// Newest first. A new major needs a look at what changed before it joins the list.
constexpr std::array<int, 2> kMajors = {13, 12};

std::string library_name(int major) { return "libnvrtc.so." + std::to_string(major); }

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A library of this name that the program has loaded already, such as PyTorch's.
std::optional<std::string> already_loaded(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return std::nullopt;
  link_map* map = nullptr;
  std::optional<std::string> path;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) path = map->l_name;
  dlclose(handle);
  return path;
}

// The loader's folders for this program: LD_LIBRARY_PATH as it was at start, run paths, defaults.
std::vector<std::string> loader_folders() {
  std::vector<std::string> folders;
  void* handle = dlopen(nullptr, RTLD_LAZY);
  if (handle == nullptr) return folders;
  Dl_serinfo size{};
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> buffer(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* info = reinterpret_cast<Dl_serinfo*>(buffer.data());
    *info = size;
    if (dlinfo(handle, RTLD_DI_SERINFO, info) == 0) {
      for (unsigned int i = 0; i < info->dls_cnt; ++i) {
        folders.emplace_back(info->dls_serpath[i].dls_name);
      }
    }
  }
  dlclose(handle);
  return folders;
}

// The path that /etc/ld.so.cache has for a name (format of glibc 2.2 and newer).
std::optional<std::string> in_loader_cache(const std::string& name) {
  struct Entry {
    int32_t flags;
    uint32_t key, value, os_version;
    uint64_t hwcap;
  };
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr size_t kHeaderBytes = 48;
  const Result<std::string> file = read_file("/etc/ld.so.cache", int64_t{64} << 20);
  if (!file.ok()) return std::nullopt;
  const size_t start = file->find(kMagic);
  if (start == std::string::npos || file->size() - start < kHeaderBytes) return std::nullopt;
  const std::string_view cache = std::string_view(*file).substr(start);
  uint32_t count = 0;
  std::memcpy(&count, cache.data() + kMagic.size(), sizeof count);
  if (count > (cache.size() - kHeaderBytes) / sizeof(Entry)) return std::nullopt;
  for (uint32_t i = 0; i < count; ++i) {
    Entry entry;
    std::memcpy(&entry, cache.data() + kHeaderBytes + i * sizeof(Entry), sizeof entry);
    if (entry.key >= cache.size() || entry.value >= cache.size()) continue;
    // The strings are NUL-terminated, and so is the std::string behind the view.
    if (name == cache.data() + entry.key) return std::string(cache.data() + entry.value);
  }
  return std::nullopt;
}

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> roots = {"/usr/local/cuda", "/opt/cuda"};
  std::vector<std::string> versioned;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda-")) {
      versioned.push_back(entry.path().string());
    }
  }
  std::sort(versioned.rbegin(), versioned.rend());
  roots.insert(roots.end(), versioned.begin(), versioned.end());
  std::vector<std::string> folders;
  for (const std::string& root : roots) {
    folders.push_back(root + "/lib64");
    folders.push_back(root + "/lib");
  }
  return folders;
}

int major_of(const std::string& soname) {
  constexpr std::string_view kPrefix = "libnvrtc.so.";
  if (!soname.starts_with(kPrefix)) return 0;
  const std::string_view rest = std::string_view(soname).substr(kPrefix.size());
  const Result<int64_t> major = parse_int(rest.substr(0, rest.find('.')));
  return major.ok() && *major > 0 && *major < 1000 ? static_cast<int>(*major) : 0;
}

Result<NvrtcLocation> identify(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  if (error) return make_error(ErrorCode::kNotFound, "'{}': {}", path, error.message());
  TW_ASSIGN(const ElfIdentity elf, read_elf_identity(resolved.string()));
  NvrtcLocation location;
  location.path = resolved.string();
  location.major = major_of(elf.soname);
  if (location.major == 0) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' is not NVRTC: its name in itself is '{}'",
                      path, elf.soname);
  }
  if (!elf.build_id.empty()) {
    location.identity = "build-id:" + elf.build_id;
    return location;
  }
  TW_ASSIGN(const std::string bytes, read_file(location.path));
  location.identity = "sha256:" + sha256_hex(bytes);
  return location;
}

// Goes through places in order and stops at the first usable library.
class Finder {
 public:
  explicit Finder(int driver_major) : driver_major_(driver_major) {}

  bool found() const { return found_.has_value(); }
  // For the sentence that says where it looked.
  void note(std::string place) { places_.push_back(std::move(place)); }

  void try_file(const std::string& path) {
    if (found() || !is_file(path)) return;
    Result<NvrtcLocation> location = identify(path);
    if (!location.ok()) {
      places_.push_back(location.error().message);
    } else if (driver_major_ != 0 && location->major > driver_major_) {
      if (!too_new_) too_new_ = *location;
    } else {
      found_ = *location;
    }
  }

  void try_folder(const std::string& folder) {
    for (const int major : kMajors) try_file(join_path(folder, library_name(major)));
  }

  Result<NvrtcLocation> finish() && {
    if (found_) return *std::move(found_);
    if (too_new_) {
      return make_error(
          ErrorCode::kCompilerUnavailable,
          "NVRTC {} at '{}' is too new for this driver, which takes the code of CUDA {} and older: "
          "install NVRTC {} or a newer driver",
          too_new_->major, too_new_->path, driver_major_, driver_major_);
    }
    return make_error(ErrorCode::kCompilerUnavailable,
                      "no NVRTC ({} or {}) found; looked for it in {}: install the CUDA toolkit, "
                      "run tools/setup.sh, or name the library's path",
                      library_name(kMajors[0]), library_name(kMajors[1]), join(places_, ", "));
  }

 private:
  int driver_major_;
  std::vector<std::string> places_;
  std::optional<NvrtcLocation> found_, too_new_;
};

}  // namespace

std::vector<std::string> nvrtc_wheel_folders(const std::string& origin) {
  constexpr int kLevels = 5;  // <build>/release/cli/tilewright up to the source tree, and one more
  constexpr std::array<std::string_view, 9> kFolders = {"cuda/lib64",
                                                        "cuda/lib",
                                                        "cuda/nvidia/cu13/lib",
                                                        "cuda/nvidia/cuda_nvrtc/lib",
                                                        "build/cuda/lib64",
                                                        "build/cuda/lib",
                                                        "build/cuda/nvidia/cu13/lib",
                                                        "nvidia/cu13/lib",
                                                        "nvidia/cuda_nvrtc/lib"};
  std::vector<std::string> folders;
  fs::path folder = origin;
  for (int level = 0; level < kLevels && !folder.empty(); ++level) {
    for (const std::string_view name : kFolders) {
      folders.push_back(join_path(folder.string(), name));
    }
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return folders;
}

Result<NvrtcLocation> find_nvrtc(const NvrtcSearch& search) {
  Finder finder(search.driver_major);
  if (!search.path.empty()) {
    finder.note("'" + search.path + "' (as asked)");
    finder.try_file(search.path);
    std::error_code error;
    if (fs::is_directory(search.path, error)) finder.try_folder(search.path);
    return std::move(finder).finish();
  }
  for (const int major : kMajors) {
    const std::optional<std::string> path = already_loaded(library_name(major));
    if (path) finder.try_file(*path);
  }
  const std::vector<std::string> folders = loader_folders();
  finder.note("the loader's cache and folders (" + join(folders, ", ") + ")");
  for (const std::string& folder : folders) finder.try_folder(folder);
  for (const int major : kMajors) {
    const std::optional<std::string> path = in_loader_cache(library_name(major));
    if (path) finder.try_file(*path);
  }
  finder.note("/usr/local/cuda*, /opt/cuda");
  for (const std::string& folder : toolkit_folders()) finder.try_folder(folder);
  finder.note("the folders cuda and nvidia in and above '" + search.origin + "'");
  for (const std::string& folder : nvrtc_wheel_folders(search.origin)) finder.try_folder(folder);
  return std::move(finder).finish();
}

std::string origin_folder() {
  Dl_info info{};
  std::error_code error;
  fs::path path;
  if (dladdr(reinterpret_cast<void*>(&origin_folder), &info) != 0 && info.dli_fname != nullptr &&
      info.dli_fname[0] == '/') {
    path = fs::canonical(info.dli_fname, error);
  } else {
    path = fs::read_symlink("/proc/self/exe", error);
  }
  return error ? std::string() : path.parent_path().string();
}

}  // namespace tilewright
