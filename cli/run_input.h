// What `run` computes on: the problem with every dim filled in, and its tensors, from .npy files or
// from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/trial.h"
#include "cli/output_files.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

struct InputFiles {
  std::string q, k, v;
  std::string dout;                        // backward
  std::string state, normalizer;           // linear passes
  std::string cu_seqlens_q, cu_seqlens_k;  // varlen
  std::string block_table, seqused_k;      // paged
  std::string blocks, documents;           // data of masks, with or without the tensors

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

// From files: all the tensors that the problem reads. Dims that `problem` lacks are taken from
// them; then each must have the shape and the type that a launch demands, and lengths and pages
// must fit. kInvalidArgument names file, tensor and value.
Result<RunInput> input_from_files(Problem problem, const InputFiles& files);

// From the problem alone: absent dims become b 1, hq 1, hkv = hq, v = qk, k = q. No tensors yet.
Result<RunInput> input_from_problem(Problem problem);

// kOutOfMemory if tensors, and with `check` the reference, exceed this machine's memory.
Status check_host_memory(const RunInput& input, bool check);

}  // namespace tilewright::cli
