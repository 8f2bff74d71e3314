// The list of subjects. Extents are no multiples of a tile anywhere; every ring wraps within a tile
// and goes on in the next one.
#include "tests/hopper_kernels/attention_subject.h"
#include "tests/hopper_kernels/gemm_subject.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

std::vector<std::unique_ptr<Subject>> all_subjects() {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(make_attention("attention_bf16_d128",
                                    {.bfloat16 = true, .head_dim = 128, .tile_n = 48},
                                    {.heads = 1, .seqlen_q = 130, .seqlen_k = 197}));
  subjects.push_back(make_attention("attention_fp16_d64", {.head_dim = 64, .tile_n = 32},
                                    {.heads = 2, .seqlen_q = 101, .seqlen_k = 163}));
  subjects.push_back(make_gemm("gemm_bf16", {.bfloat16 = true, .tile_n = 96, .stages = 2},
                               {.m = 131, .n = 101, .k = 203, .blocks = 2}));
  subjects.push_back(make_gemm("gemm_fp16", {.tile_n = 64, .stages = 3, .consumers = 2},
                               {.m = 77, .n = 131, .k = 331, .blocks = 1}));
  subjects.push_back(make_gemm("multicast",
                               {.tile_n = 64, .stages = 2, .consumers = 1, .cluster = 2},
                               {.m = 117, .n = 139, .k = 267, .blocks = 2}));
  subjects.push_back(
      make_gemm("reduce_add_fp16",
                {.tile_n = 64, .stages = 2, .consumers = 1, .epilogue = Epilogue::kReduceHalf},
                {.m = 53, .n = 83, .k = 201, .num_splits = 2, .blocks = 2}));
  subjects.push_back(
      make_gemm("reduce_add_fp32",
                {.tile_n = 64, .stages = 2, .consumers = 1, .epilogue = Epilogue::kReduceFull},
                {.m = 53, .n = 83, .k = 201, .num_splits = 3, .blocks = 2}));
  return subjects;
}

}  // namespace tilewright::hopper_kernels
