// What `run` computes on: the problem with every dim filled in, and its tensors, from .npy files or
// from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/trial.h"
#include "cli/output_files.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

struct InputFiles {
  std::string q, k, v;
  std::string dout;               // backward
  std::string blocks, documents;  // data of masks, with or without the tensors

  // "--q", … with their paths, empty ones too.
  std::vector<FileFlag> flags() const;
  // Whether a tensor comes from a file.
  bool any() const;
};

struct RunInput {
  Problem problem;  // every dim and the type present
  reference::Sizes sizes;
  TrialTensors tensors;            // empty until the kernel is known to exist, if from a seed
  std::vector<std::string> notes;  // "q.npy: rounded from float32 to fp16"
};

// From files. Their shapes must agree with each other and with the dims that `problem` has; those
// it lacks are taken from the files. kInvalidArgument names file and field.
Result<RunInput> input_from_files(Problem problem, const InputFiles& files);

// From the problem alone: absent dims become b 1, hq 1, hkv = hq, v = qk, k = q. No tensors yet.
Result<RunInput> input_from_problem(Problem problem);

// A file's field that is not what the problem needs: "q.npy: shape: …".
Error wrong_file(const std::string& path, std::string_view field, std::string_view what);

// kOutOfMemory if tensors, and with `check` the reference, exceed this machine's memory.
Status check_host_memory(Pass pass, const reference::Sizes& sizes, bool check);

// Writes contiguous [batch, rows, heads, dim] values in the problem's layout, in the type that .npy
// has for `dtype`: float16, uint16 for bf16, uint8 for fp8, float32.
Status write_tensor(const std::string& path, Dtype dtype, Layout layout,
                    const std::array<int64_t, 4>& bshd, std::span<const float> values);
// lse [batch, heads, rows], float32.
Status write_lse(const std::string& path, const reference::Sizes& sizes,
                 std::span<const float> values);

}  // namespace tilewright::cli
