#include "reference/visibility.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace tilewright::reference {
namespace {

// Floor division for a positive divisor.
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct Lengths {
  int64_t seqlen_q, seqlen_k;
  // The key position at which a query stands.
  int64_t position(int64_t query) const { return query + seqlen_k - seqlen_q; }
};

bool within_window(int64_t distance, const WindowMask& mask) {
  if (mask.left && distance < -*mask.left * mask.dilation) return false;
  if (mask.right && distance > *mask.right * mask.dilation) return false;
  return distance % mask.dilation == 0;
}

bool is_global(const GlobalMask& mask, int64_t position) {
  if (!mask.indices.empty()) {
    return std::find(mask.indices.begin(), mask.indices.end(), position) != mask.indices.end();
  }
  return 0 <= position && position < mask.count;
}

Result<Visibility> term_visibility(const Mask& mask, Lengths lengths) {
  if (const auto* causal = std::get_if<CausalMask>(&mask)) {
    const bool top_left = causal->alignment == MaskAlignment::kTopLeft;
    return Visibility([=](int64_t query, int64_t key) {
      return key <= (top_left ? query : lengths.position(query));
    });
  }
  if (const auto* window = std::get_if<WindowMask>(&mask)) {
    return Visibility([=, window = *window](int64_t query, int64_t key) {
      return within_window(key - lengths.position(query), window);
    });
  }
  if (const auto* prefix = std::get_if<PrefixMask>(&mask)) {
    return Visibility([length = prefix->length](int64_t, int64_t key) { return key < length; });
  }
  if (const auto* global = std::get_if<GlobalMask>(&mask)) {
    return Visibility([=, global = *global](int64_t query, int64_t key) {
      return is_global(global, key) || is_global(global, lengths.position(query));
    });
  }
  if (const auto* longformer = std::get_if<LongformerMask>(&mask)) {
    const WindowMask window{longformer->window / 2, longformer->window / 2, 1};
    const GlobalMask global{0, longformer->global};
    return Visibility([=](int64_t query, int64_t key) {
      const int64_t position = lengths.position(query);
      return within_window(key - position, window) ||
             (!global.indices.empty() && (is_global(global, key) || is_global(global, position)));
    });
  }
  if (const auto* chunk = std::get_if<ChunkMask>(&mask)) {
    return Visibility([=, size = chunk->size](int64_t query, int64_t key) {
      const int64_t position = lengths.position(query);
      return key <= position && floor_div(key, size) == floor_div(position, size);
    });
  }
  return make_error(ErrorCode::kUnsupportedProblem, "mask number {} has no fp64 reference yet",
                    mask.index());
}

}  // namespace

Result<Visibility> make_visibility(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k) {
  std::vector<std::vector<Visibility>> unions;
  for (const MaskUnion& mask_union : problem.masks) {
    std::vector<Visibility> terms;
    for (const Mask& mask : mask_union.terms) {
      TW_ASSIGN(Visibility term, term_visibility(mask, {seqlen_q, seqlen_k}));
      terms.push_back(std::move(term));
    }
    unions.push_back(std::move(terms));
  }
  return Visibility([unions = std::move(unions)](int64_t query, int64_t key) {
    return std::all_of(unions.begin(), unions.end(), [&](const std::vector<Visibility>& terms) {
      return std::any_of(terms.begin(), terms.end(),
                         [&](const Visibility& term) { return term(query, key); });
    });
  });
}

}  // namespace tilewright::reference
