// The open SM90 attention of github.com/NVIDIA/cudnn-frontend: bf16, causal from the top left, its
// own engine compiling under NVRTC and launching.   cudnn_sdpa HEAD_DIM BATCH HQ HKV SQ SKV
#include <cudnn.h>
#include <cudnn_frontend.h>
// Behind cudnn.h.
#include <cudnn_frontend/experimental/sm90_sdpa_prefill_engine.h>

#include <cstdint>
#include <vector>

#include "tests/third_party/attention.h"
#include "tests/third_party/check.h"

// The engine loads a cubin, which an emulated device refuses. These names win over NVRTC's own and
// hand it the PTX of the same compilation.
extern "C" {
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  return nvrtcGetPTXSize(program, bytes);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* text) { return nvrtcGetPTX(program, text); }
}

namespace {

// 16 bits of bfloat16.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    uint32_t word = 0;
    std::memcpy(&word, &value, 4);
    bits = static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t word = uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

}  // namespace

int main(int argc, char** argv) {
  using third_party::require;
  require(argc == 7, "usage: cudnn_sdpa HEAD_DIM BATCH HQ HKV SQ SKV");
  const int head_dim = std::atoi(argv[1]), batch = std::atoi(argv[2]);
  const int heads_q = std::atoi(argv[3]), heads_kv = std::atoi(argv[4]);
  const int seqlen_q = std::atoi(argv[5]), seqlen_kv = std::atoi(argv[6]);
  // It has no mask for keys past the end: causal must hide them.
  require(seqlen_q <= seqlen_kv && heads_q % heads_kv == 0, "seqlen_q <= seqlen_kv, HKV | HQ");

  constexpr unsigned kSeed = 31;
  const size_t rows_q = size_t(batch) * heads_q * seqlen_q;
  const size_t rows_kv = size_t(batch) * heads_kv * seqlen_kv;
  const auto q = third_party::random_values<Bf16>(rows_q * head_dim, kSeed);
  const auto k = third_party::random_values<Bf16>(rows_kv * head_dim, kSeed + 1);
  const auto v = third_party::random_values<Bf16>(rows_kv * head_dim, kSeed + 2);
  const third_party::DeviceArray<Bf16> device_q(q), device_k(k), device_v(v);
  const third_party::DeviceArray<Bf16> device_o(rows_q * head_dim);
  const third_party::DeviceArray<float> device_max(rows_q), device_sum(rows_q);
  const third_party::DeviceArray<char> workspace(16);

  cudnn_frontend::experimental::Sm90SdpaPrefillEngine engine;
  const auto good = [](cudnn_frontend::error_t error, const char* what) {
    if (!error.is_good()) std::printf("%s\n", error.get_message().c_str());
    require(error.is_good(), what);
  };
  const auto unsigned_of = [](int value) { return static_cast<uint32_t>(value); };
  good(engine.check_support({unsigned_of(batch), unsigned_of(heads_q), unsigned_of(heads_kv),
                             unsigned_of(heads_kv), unsigned_of(seqlen_q), unsigned_of(seqlen_kv),
                             unsigned_of(head_dim), unsigned_of(head_dim)},
                            90),
       "check_support");
  good(engine.build(), "build");
  const auto strides = [](int64_t heads, int64_t rows, int64_t columns) {
    return std::vector<int64_t>{heads * rows * columns, rows * columns, columns, 1};
  };
  const auto strides_q = strides(heads_q, seqlen_q, head_dim);
  const auto strides_kv = strides(heads_kv, seqlen_kv, head_dim);
  const auto strides_row = strides(heads_q, seqlen_q, 1);
  const third_party::Stopwatch stopwatch;
  good(engine.execute(batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, device_q.data(),
                      strides_q, device_k.data(), strides_kv, device_v.data(), strides_kv,
                      device_o.data(), strides_q, device_max.data(), strides_row, device_sum.data(),
                      strides_row, workspace.data(), 0, nullptr),
       "execute");
  require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();

  const auto o = device_o.read();
  const auto maxima = device_max.read(), sums = device_sum.read();
  third_party::Comparison comparison;
  const double scale = 1.0 / std::sqrt(double(head_dim));
  for (size_t row_q = 0; row_q < rows_q; ++row_q) {
    const size_t query = row_q % seqlen_q, head = row_q / seqlen_q % heads_q;
    const size_t head_kv = row_q / seqlen_q / heads_q * heads_kv + head / (heads_q / heads_kv);
    const size_t first_kv = head_kv * seqlen_kv * head_dim;
    const third_party::AttentionRow row =
        third_party::attention_row(&q[row_q * head_dim], &k[first_kv], &v[first_kv],
                                   static_cast<int>(query) + 1, head_dim, scale);
    for (int i = 0; i < head_dim; ++i) {
      comparison.element(row_q * head_dim + i, float(o[row_q * head_dim + i]), row.output[i],
                         third_party::output_bound(row, i, head_dim, std::ldexp(1.0, -8)));
    }
    comparison.element(row_q, maxima[row_q], row.maximum,
                       third_party::statistics_bound(row, head_dim));
    comparison.element(row_q, std::log(double(sums[row_q])), std::log(row.sum),
                       2 * third_party::statistics_bound(row, head_dim));
  }
  char name[128];
  std::snprintf(name, sizeof(name), "cudnn-frontend sm90 d%d b%d hq%d hkv%d q%d k%d, seed %u",
                head_dim, batch, heads_q, heads_kv, seqlen_q, seqlen_kv, kSeed);
  return comparison.finish(name, seconds);
}
