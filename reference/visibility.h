// Which keys a query sees, pair by pair, straight from the definitions of docs/semantics.md. Slow
// and obvious on purpose: kernels and tile lists are tested against it and share nothing with it.
#pragma once

#include <cstdint>
#include <functional>

#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

// visible(query, key) for raw row indices 0 <= query < seqlen_q, 0 <= key < seqlen_k.
using Visibility = std::function<bool(int64_t query, int64_t key)>;

// kUnsupportedProblem names a mask that needs launch data or has no reference yet.
Result<Visibility> make_visibility(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k);

}  // namespace tilewright::reference
