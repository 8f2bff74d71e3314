// NumPy's .npy files: C order, little endian, of the types that attention tensors come in. Errors
// name the file and the field of its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/result.h"

namespace tilewright {

enum class NpyType { kFloat16, kFloat32, kFloat64, kUint16, kUint8, kInt32, kInt64, kBool };

// "float16", "uint8", …
std::string_view to_string(NpyType type);
int64_t size_in_bytes(NpyType type);

struct NpyArray {
  NpyType type = NpyType::kFloat32;
  std::vector<int64_t> shape;   // empty: one scalar
  std::vector<std::byte> data;  // C order, exactly num_elements() * size_in_bytes(type) bytes

  int64_t num_elements() const;
};

// kNotFound, kIoError, or kInvalidArgument: "q.npy: descr: '>f4' is big endian; …", or that it is
// no regular file.
Result<NpyArray> read_npy(const std::string& path);
Status write_npy(const std::string& path, const NpyArray& array);

// The same on bytes in memory; `name` stands for the file in messages.
Result<NpyArray> parse_npy(std::string_view bytes, const std::string& name);
std::string format_npy(const NpyArray& array);

}  // namespace tilewright
