// Initialisation, versions, error names and cuGetProcAddress.
#include <cstring>
#include <string>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"
#include "emulator/driver/symbol_table.h"

namespace tilewright::emulator::driver {
namespace {

constexpr int kDriverVersion = 13000;

const char* error_name(CUresult error) {
  switch (error) {
#define TW_ERROR(name) \
  case name:           \
    return #name;
#include "emulator/driver/error_names.def"
#undef TW_ERROR
  }
  return nullptr;
}

// "CUDA_ERROR_OUT_OF_MEMORY" -> "out of memory".
std::string words_of(std::string_view name) {
  if (name == "CUDA_SUCCESS") return "no error";
  name.remove_prefix(std::string_view("CUDA_ERROR_").size());
  std::string words;
  for (const char c : name) {
    words += c == '_' ? ' ' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return words;
}

const char* error_words(CUresult error) {
  static const std::map<CUresult, std::string> all = [] {
    std::map<CUresult, std::string> words;
#define TW_ERROR(name) words[name] = words_of(#name);
#include "emulator/driver/error_names.def"
#undef TW_ERROR
    return words;
  }();
  const auto it = all.find(error);
  return it == all.end() ? nullptr : it->second.c_str();
}

// The newest version of `base` that a program written for `cuda_version` expects.
const Symbol* find_version(const std::string& base, int cuda_version, bool per_thread) {
  const Symbol* best = nullptr;
  constexpr const char* kVersions[] = {"", "_v2", "_v3", "_v4"};
  for (const char* version : kVersions) {
    const std::string name = base + version;
    const Symbol* candidate = nullptr;
    if (per_thread) candidate = find_symbol(name + "_ptsz");
    if (per_thread && candidate == nullptr) candidate = find_symbol(name + "_ptds");
    if (candidate == nullptr) candidate = find_symbol(name);
    if (candidate == nullptr || candidate->version > cuda_version) continue;
    if (best == nullptr || candidate->version >= best->version) best = candidate;
  }
  return best;
}

bool known_base(const std::string& base) {
  return find_symbol(base) != nullptr || find_symbol(base + "_v2") != nullptr;
}

}  // namespace

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  if (!driver.configuration_error.empty()) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "{}", driver.configuration_error);
  }
  driver.initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error_name(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error_words(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || function == nullptr || (flags & ~kKnown) != 0 || flags == kKnown) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *function = nullptr;
  std::string base = symbol;
  // From 12.0 on the plain name means the newer function; its flags come as one argument.
  if (base == "cuGraphInstantiate" && cuda_version >= 12000) base = "cuGraphInstantiateWithFlags";
  const Symbol* found = find_version(base, cuda_version,
                                     (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  CUdriverProcAddressQueryResult outcome = CU_GET_PROC_ADDRESS_SUCCESS;
  if (found == nullptr) {
    outcome = known_base(base) ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  } else {
    *function = found->address;
  }
  if (status != nullptr) {
    *status = outcome;
    return CUDA_SUCCESS;
  }
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int cuda_version, cuuint64_t flags) {
  return driver::cuGetProcAddress_v2(symbol, function, cuda_version, flags, nullptr);
}

}  // namespace tilewright::emulator::driver
