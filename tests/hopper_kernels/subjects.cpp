// The list of subjects. Extents are no multiples of a tile anywhere. Rings turn often enough that a
// barrier which counts one arrival too few runs ahead by a whole slot.
#include "tests/hopper_kernels/attention_subject.h"
#include "tests/hopper_kernels/gemm_subject.h"
#include "tests/hopper_kernels/generated_subject.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {
namespace {

// The family forward_sm90: 1 to 3 consumers, rings of 2 and 3 slots, tiles of one and of two
// columns, masked tiles at one end and at both, packed sequences.
void add_forward_sm90(std::vector<std::unique_ptr<Subject>>& subjects) {
  subjects.push_back(make_generated("forward_sm90_causal", "hq1 hkv1 q70 k193 qk80 v72 bf16 causal",
                                    "forward_sm90 dtype=bf16 head_dim_qk=80 head_dim_v=72 "
                                    "row_range=true consumer_warpgroups=1 tile_n=16 stages=3"));
  subjects.push_back(make_generated("forward_sm90_dense", "hq2 hkv1 q67 k331 qk64 v64 fp16",
                                    "forward_sm90 head_dim_qk=64 head_dim_v=64 "
                                    "consumer_warpgroups=2 tile_n=32 stages=2"));
  subjects.push_back(make_generated("forward_sm90_varlen",
                                    "b3 hq1 hkv1 q67 k167 qk64 v64 bf16 varlen",
                                    "forward_sm90 dtype=bf16 head_dim_qk=64 head_dim_v=64 "
                                    "varlen=true consumer_warpgroups=1 tile_n=16 stages=2"));
  subjects.push_back(make_generated("forward_sm90_window",
                                    "hq1 hkv1 q131 k517 qk64 v40 fp16 window=250,7",
                                    "forward_sm90 head_dim_qk=64 head_dim_v=40 row_range=true "
                                    "consumer_warpgroups=3 tile_n=32 stages=2"));
}

}  // namespace

std::vector<std::unique_ptr<Subject>> all_subjects() {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(make_attention("attention_bf16_d128",
                                    {.bfloat16 = true, .head_dim = 128, .tile_n = 48},
                                    {.heads = 1, .seqlen_q = 67, .seqlen_k = 917}));
  subjects.push_back(make_attention("attention_fp16_d64", {.head_dim = 64, .tile_n = 32},
                                    {.heads = 2, .seqlen_q = 131, .seqlen_k = 675}));
  add_forward_sm90(subjects);
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
