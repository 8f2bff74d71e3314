// The forward attention of CUTLASS's example 88 (half precision, TMA and wgmma), started by its own
// launcher. The compiler is told which one: TW_KERNEL (below) and TW_MASK (DefaultFusion, which
// wants a whole number of key tiles, ResidualFusion, CausalFusion).   cutlass_fmha BATCH HEADS SQ
// SKV
#include <cutlass/cutlass.h>
#include <cutlass/kernel_hardware_info.h>
#include <cute/tensor.hpp>

#include "collective/fmha_fusion.hpp"
#include "device/device_universal.hpp"
#include "kernel/fmha_kernel_builder.hpp"
#include "kernel/fmha_options.hpp"
#include "tests/third_party/attention.h"
#include "tests/third_party/check.h"

namespace {

using cute::_1;
using Half = cutlass::half_t;

namespace kernels {

template <int kQueries, int kKeys, int kHeadDim>
using TileOf = cute::Shape<cute::Int<kQueries>, cute::Int<kKeys>, cute::Int<kHeadDim>>;

struct Tma64 {
  static constexpr const char* kName = "tma";
  using Tile = TileOf<64, 128, 64>;
  using Schedule = cutlass::gemm::KernelTma;
};
struct Cooperative64 {
  static constexpr const char* kName = "cooperative";
  using Tile = TileOf<128, 64, 64>;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
};
struct Pingpong128 {
  static constexpr const char* kName = "ping-pong";
  using Tile = TileOf<128, 128, 128>;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
};

}  // namespace kernels

struct Sizes {
  int batch = 0, heads = 0, seqlen_q = 0, seqlen_kv = 0;
  bool causal = false;
};

template <class Tile, class Schedule, class Mask>
int run(const char* name, const Sizes& sizes) {
  using third_party::require;
  using Rows = cute::tuple<int, _1, cute::tuple<int, int>>;
  using Statistics = cute::tuple<_1, cute::tuple<int, int>>;
  using Operation = cutlass::device::Universal<typename cutlass::fmha::kernel::FmhaBuilder<
      Half, float, float, Tile, Rows, Rows, Rows, Mask, Schedule>::Kernel>;
  constexpr int kHeadDim = decltype(cute::get<2>(Tile{}))::value;
  constexpr unsigned kSeed = 41;
  const size_t rows_q = size_t(sizes.batch) * sizes.heads * sizes.seqlen_q;
  const size_t rows_kv = size_t(sizes.batch) * sizes.heads * sizes.seqlen_kv;
  const auto q = third_party::random_values<Half>(rows_q * kHeadDim, kSeed);
  const auto k = third_party::random_values<Half>(rows_kv * kHeadDim, kSeed + 1);
  const auto v = third_party::random_values<Half>(rows_kv * kHeadDim, kSeed + 2);
  const third_party::DeviceArray<Half> device_q(q), device_k(k), device_v(v);
  const third_party::DeviceArray<Half> device_o(rows_q * kHeadDim);
  const third_party::DeviceArray<float> device_lse(rows_q);

  const auto rows = [&](int length) {
    return cute::make_stride(kHeadDim, _1{},
                             cute::make_stride(sizes.heads * length * kHeadDim, length * kHeadDim));
  };
  const Statistics stride_lse =
      cute::make_stride(_1{}, cute::make_stride(sizes.heads * sizes.seqlen_q, sizes.seqlen_q));
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  typename Operation::Arguments arguments{
      {sizes.batch, sizes.heads, sizes.seqlen_q, sizes.seqlen_kv, kHeadDim},
      {device_q.data(), rows(sizes.seqlen_q), device_k.data(), rows(sizes.seqlen_kv),
       device_v.data(), rows(sizes.seqlen_kv)},
      {device_o.data(), rows(sizes.seqlen_q), device_lse.data(), stride_lse},
      hardware};
  Operation operation;
  require(Operation::can_implement(arguments) == cutlass::Status::kSuccess, "can_implement");
  const third_party::DeviceArray<char> workspace(Operation::get_workspace_size(arguments) + 16);
  require(operation.initialize(arguments, workspace.data()) == cutlass::Status::kSuccess,
          "initialize");
  const third_party::Stopwatch stopwatch;
  require(operation.run() == cutlass::Status::kSuccess, "launch");
  require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();

  const auto o = device_o.read();
  const auto lse = device_lse.read();
  third_party::Comparison comparison;
  for (size_t row_q = 0; row_q < rows_q; ++row_q) {
    const int query = static_cast<int>(row_q % sizes.seqlen_q);
    const size_t first_kv = row_q / sizes.seqlen_q * sizes.seqlen_kv * kHeadDim;
    const int visible = sizes.causal ? std::min(query + 1, sizes.seqlen_kv) : sizes.seqlen_kv;
    const third_party::AttentionRow row =
        third_party::attention_row(&q[row_q * kHeadDim], &k[first_kv], &v[first_kv], visible,
                                   kHeadDim, 1.0 / std::sqrt(double(kHeadDim)));
    for (int i = 0; i < kHeadDim; ++i) {
      comparison.element(row_q * kHeadDim + i, float(o[row_q * kHeadDim + i]), row.output[i],
                         third_party::output_bound(row, i, kHeadDim, std::ldexp(1.0, -11)));
    }
    comparison.element(row_q, lse[row_q], row.log_sum_exp(),
                       third_party::statistics_bound(row, kHeadDim));
  }
  char text[128];
  std::snprintf(text, sizeof(text), "CUTLASS 88 %s d%d b%d h%d q%d k%d%s, seed %u", name, kHeadDim,
                sizes.batch, sizes.heads, sizes.seqlen_q, sizes.seqlen_kv,
                sizes.causal ? " causal" : "", kSeed);
  return comparison.finish(text, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  third_party::require(argc == 5, "usage: cutlass_fmha BATCH HEADS SQ SKV");
  namespace fusion = cutlass::fmha::collective;
  using Kernel = kernels::TW_KERNEL;
  using Mask = fusion::TW_MASK;
  const Sizes sizes{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
                    std::is_same_v<Mask, fusion::CausalFusion>};
  return run<Kernel::Tile, Kernel::Schedule, Mask>(Kernel::kName, sizes);
}
