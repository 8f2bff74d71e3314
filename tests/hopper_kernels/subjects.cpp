// The list of subjects. Extents are no multiples of a tile anywhere. Rings turn often enough that a
// barrier which counts one arrival too few runs ahead by a whole slot.
#include "tests/hopper_kernels/attention_subject.h"
#include "tests/hopper_kernels/gemm_subject.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

std::vector<std::unique_ptr<Subject>> all_subjects() {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(make_attention("attention_bf16_d128",
                                    {.bfloat16 = true, .head_dim = 128, .tile_n = 48},
                                    {.heads = 1, .seqlen_q = 67, .seqlen_k = 917}));
  subjects.push_back(make_attention("attention_fp16_d64", {.head_dim = 64, .tile_n = 32},
                                    {.heads = 2, .seqlen_q = 131, .seqlen_k = 675}));
  subjects.push_back(make_gemm("gemm_bf16", {.bfloat16 = true, .tile_n = 96, .stages = 2},
                               {.m = 131, .n = 101, .k = 523, .blocks = 2}));
  subjects.push_back(make_gemm("gemm_fp16", {.tile_n = 64, .stages = 3, .consumers = 2},
                               {.m = 77, .n = 131, .k = 651, .blocks = 1}));
  subjects.push_back(make_gemm("multicast",
                               {.tile_n = 64, .stages = 2, .consumers = 1, .cluster = 2},
                               {.m = 117, .n = 139, .k = 523, .blocks = 2}));
  subjects.push_back(
      make_gemm("reduce_add_fp16",
                {.tile_n = 64, .stages = 2, .consumers = 1, .epilogue = Epilogue::kReduceHalf},
                {.m = 53, .n = 83, .k = 715, .num_splits = 2, .blocks = 2}));
  subjects.push_back(
      make_gemm("reduce_add_fp32",
                {.tile_n = 64, .stages = 2, .consumers = 1, .epilogue = Epilogue::kReduceFull},
                {.m = 53, .n = 83, .k = 715, .num_splits = 3, .blocks = 2}));
  return subjects;
}

}  // namespace tilewright::hopper_kernels
