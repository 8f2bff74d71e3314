// What is compiled (CompileRequest), what comes out (CompiledCode, Binary), and who compiles
// (Compiler). A request holds everything that decides the result; its key is computed from it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generator/generator.h"
#include "tilewright/kernel.h"
#include "tilewright/result.h"

namespace tilewright {

// One file of device code, named as #include lines name it.
struct DeviceHeader {
  std::string name;  // "attention/forward_sm80.cuh"
  std::string text;
};

struct CompileRequest {
  KernelSource source;
  std::string target;                 // "sm_90a"
  std::vector<std::string> options;   // of NVRTC, target included
  std::vector<DeviceHeader> headers;  // the transitive include closure of source.template_path
};

// The request for a stub. `templates_dir` empty: the embedded templates; else files of that folder,
// read now. kNotFound names an include that leads nowhere.
Result<CompileRequest> make_compile_request(const KernelSource& source, std::string_view target,
                                            const std::string& templates_dir);

struct CompiledCode {
  std::string ptx;                         // `.file` paths are virtual: "/tilewright/attention/…"
  std::string cubin;                       // bytes of an ELF file
  std::string log;                         // warnings and the ptxas report
  std::vector<KernelResources> resources;  // of each entry, in the order of the request
  std::string compiler_version;            // "NVRTC 13.0"
  double seconds = 0;
};

// One compiled kernel, in memory.
struct Binary {
  std::string key;  // 64 hex digits
  std::string family;
  std::string target;
  std::vector<std::string> entry_names;
  std::string source;  // the stub
  CompiledCode code;
};

using BinaryPtr = std::shared_ptr<const Binary>;

// May be called from many threads at once; needs no CUDA context.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Names the compiler for the cache key: changes if its output may.
  virtual const std::string& identity() const = 0;
  // kCompileError: log, options, compiler path and version, and the numbered source lines.
  virtual Result<CompiledCode> compile(const CompileRequest& request) = 0;
  // Whether anything was loaded yet.
  virtual bool loaded() const = 0;
};

// The report of ptxas for one entry; fields it does not mention stay -1.
KernelResources parse_ptxas_report(std::string_view log, std::string_view entry_name);

// The stub's name in diagnostics and debug information.
std::string stub_name(const KernelSource& source);

// NVRTC prefixes file names with the current folder. Replaces the paths of the PTX's `.file` lines
// by "/tilewright/<name>", and the same folder in the cubin by slashes (its length cannot change),
// so that nothing of this machine stays in the code.
void hide_current_folder(const CompileRequest& request, CompiledCode& code);

}  // namespace tilewright
