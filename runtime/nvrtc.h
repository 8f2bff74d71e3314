// NVRTC, found and opened at run time. Finding it reads files only, so that a cache key can name
// the compiler without loading it; opening it is left to the first compile. `Compiler` is the
// interface that the cache and the tests use.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compile.h"
#include "tilewright/result.h"

namespace tilewright {

// One NVRTC library file on this machine.
struct NvrtcLocation {
  std::string path;      // resolved: no symbolic links
  int major = 0;         // of the library's SONAME
  std::string identity;  // "build-id:65be…", or "sha256:…" of a file without one
};

struct NvrtcSearch {
  std::string path = {};  // this file or folder and no other; empty: search
  // Newest NVRTC major that the driver can take (its own major); 0 = any.
  int driver_major = 0;
  // The folder of the running program or library, under which wheel folders are looked for.
  std::string origin = {};
};

// Order: the given path; a library of that name already in the process; the loader's folders;
// toolkit folders; wheel folders. kCompilerUnavailable lists where it looked, or says that what was
// found is too new for the driver.
Result<NvrtcLocation> find_nvrtc(const NvrtcSearch& search);

// Where wheels may be unpacked: in the origin and in the folders around it.
std::vector<std::string> nvrtc_wheel_folders(const std::string& origin);

// The folder that holds this library or, where it is linked statically, the program.
std::string origin_folder();

// A loaded NVRTC.
class Nvrtc final : public Compiler {
 public:
  // Loads nothing yet.
  explicit Nvrtc(NvrtcLocation location);
  ~Nvrtc() override;

  const std::string& identity() const override { return location_.identity; }
  Result<CompiledCode> compile(const CompileRequest& request) override;
  bool loaded() const override;

  const NvrtcLocation& location() const { return location_; }
  // "13.0": loads the library.
  Result<std::string> version();

 private:
  struct Library;
  class Program;
  Result<const Library*> library();

  NvrtcLocation location_;
  mutable std::mutex mutex_;
  std::unique_ptr<Library> library_;
};

}  // namespace tilewright
