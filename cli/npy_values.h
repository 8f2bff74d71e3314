// Between .npy files and the values of a trial: what a tensor's file must look like, and its
// elements in the order in which trials keep them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/npy.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

// A file's field that is not what the problem needs: "q.npy: shape: …".
Error wrong_file(const std::string& path, std::string_view field, std::string_view what);

// Reads an input. Whatever is wrong with the file, only regular ones are read, is wrong with the
// command line that names it: kNotFound or kInvalidArgument.
Result<NpyArray> read_input_file(const std::string& path);

// Of a tensor of integers: int64, which NumPy makes of Python's integers, becomes int32 if every
// value fits.
Result<NpyArray> read_integer_file(const std::string& path);

// kInvalidArgument names the file, the tensor, and both shapes or both types. bf16 and fp8 come
// as integers of their size, which tell the type only if the problem's text did.
Status check_shape(const std::string& path, const NpyArray& array,
                   const TensorRequirement& requirement);
Status check_type(const std::string& path, NpyType type, const TensorRequirement& requirement,
                  bool dtype_was_given);

// Contiguous [batch, rows, heads, dim] values, whatever the layout, rounded to the tensor's type; a
// note says so where that changes anything. kInvalidArgument for a value beyond that type.
Result<std::vector<float>> float_values(const std::string& path, const NpyArray& array,
                                        const TensorRequirement& requirement, Layout layout,
                                        std::vector<std::string>& notes);
std::vector<int32_t> integer_values(const NpyArray& array);

// The other way, in the type that .npy has for a Dtype: float16, uint16 for bf16, uint8 for fp8,
// float32.
NpyArray to_npy(const TensorRequirement& requirement, Layout layout, std::span<const float> values);

}  // namespace tilewright::cli
