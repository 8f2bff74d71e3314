#include "io_model/algorithm.h"

#include <array>
#include <string>

#include "core/check.h"

namespace tilewright::io_model {
namespace {

using enum Algorithm;
using enum Task;

// In the order of the enum.
constexpr std::array kAlgorithms = {
    AlgorithmInfo{kStandardIdealForward, "standard-ideal-forward", "standard", kForward, false, 4},
    AlgorithmInfo{kStandardTiledForward, "standard-tiled-forward", "standard", kForward, false, 4},
    AlgorithmInfo{kFlash1Forward, "flash1-forward", "flash", kForward, false, 4},
    AlgorithmInfo{kFlash2Forward, "flash2-forward", "flash", kForward, false, 4},
    AlgorithmInfo{kSquareForward, "square-tile-forward", "small-cache", kForward, false, 4},
    AlgorithmInfo{kStandardIdealBackward, "standard-ideal-backward", "standard", kBackward, true,
                  8},
    AlgorithmInfo{kStandardTiledBackward, "standard-tiled-backward", "standard", kBackward, true,
                  8},
    AlgorithmInfo{kFlash1Backward, "flash1-backward", "flash", kBackward, false, 10},
    AlgorithmInfo{kOnePassBackward, "one-pass", "flash", kBackward, false, 10},
    AlgorithmInfo{kTwoPassBackward, "two-pass", "flash", kBackward, false, 14},
    AlgorithmInfo{kSmallCacheBackward, "small-cache", "small-cache", kBackward, false, 10},
    AlgorithmInfo{kSmallCacheKeptBackward, "small-cache-kept", "small-cache", kBackward, true, 8},
    AlgorithmInfo{kLargeCacheWeights, "large-cache-dx", "flash", kWeights, false, 10},
    AlgorithmInfo{kSmallCacheWeights, "small-cache-dx", "small-cache", kWeights, false, 8},
    AlgorithmInfo{kSmallCacheBothWeights, "small-cache-dx-dy", "small-cache", kWeights, false, 10},
};

}  // namespace

std::span<const AlgorithmInfo> algorithms() { return kAlgorithms; }

const AlgorithmInfo& info(Algorithm algorithm) {
  const AlgorithmInfo& row = kAlgorithms[static_cast<size_t>(algorithm)];
  TW_CHECK(row.algorithm == algorithm, "the table of algorithms is not in the order of the enum");
  return row;
}

Result<Algorithm> find_algorithm(std::string_view name) {
  std::string known;
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (row.name == name) return row.algorithm;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return make_error(ErrorCode::kNotFound, "no algorithm '{}'; known: {}", name, known);
}

}  // namespace tilewright::io_model
