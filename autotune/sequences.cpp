#include "autotune/sequences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "autotune/random_masks.h"
#include "autotune/random_values.h"
#include "core/ceil_div.h"
#include "core/check.h"
#include "core/find_mask.h"
#include "reference/paged.h"
#include "tilewright/serving.h"

namespace tilewright {
namespace {

// Prefix sums of lengths up to `longest`; the first sequence is that long, and every fifth or so is
// empty.
std::vector<int32_t> random_prefix_sums(int64_t batch, int64_t longest, uint64_t seed) {
  std::vector<int32_t> sums = {0};
  for (int64_t i = 0; i < batch; ++i) {
    const uint64_t bits = mix(seed ^ mix(static_cast<uint64_t>(i)));
    const bool empty = bits % 5 == 0;
    const auto some = static_cast<int64_t>(bits / 5 % static_cast<uint64_t>(longest + 1));
    sums.push_back(sums.back() + static_cast<int32_t>(i == 0 ? longest : empty ? 0 : some));
  }
  return sums;
}

// Pages in random order, a few more than are needed; the table's entries beyond a sequence's keys
// name no page.
void add_random_pages(int64_t page_size, const reference::Sizes& sizes, uint64_t seed,
                      TrialTensors& inputs) {
  constexpr int64_t kSpare = 3;
  const std::vector<int32_t> sums = random_prefix_sums(sizes.batch, sizes.seqlen_k, mix(seed));
  const int64_t width = ceil_div(sizes.seqlen_k, page_size);
  std::vector<int32_t> order(static_cast<size_t>(sizes.batch * width + kSpare));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[mix(seed ^ i) % i]);
  inputs.num_pages = std::ssize(order);
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    const auto at = static_cast<size_t>(batch);
    inputs.seqused_k.push_back(sums[at + 1] - sums[at]);
    for (int64_t page = 0; page < width; ++page) {
      const bool used = page * page_size < inputs.seqused_k.back();
      inputs.block_table.push_back(used ? order[static_cast<size_t>(batch * width + page)]
                                        : INT32_MAX);
    }
  }
}

// The rows of packed tensors: those of the sequences, and sometimes a few more.
int64_t random_total(const std::vector<int32_t>& sums, uint64_t seed) {
  constexpr uint64_t kSpare = 7;
  const int64_t rows = sums.back();
  return rows + static_cast<int64_t>(mix(seed ^ mix(static_cast<uint64_t>(rows))) % 3 * kSpare);
}

// The rows of pages that hold a key of a sequence.
std::vector<bool> rows_in_use(int64_t page_size, const TrialTensors& inputs) {
  std::vector<bool> used(static_cast<size_t>(inputs.num_pages * page_size), false);
  const size_t width = inputs.block_table.size() / std::max<size_t>(1, inputs.seqused_k.size());
  for (size_t batch = 0; batch < inputs.seqused_k.size(); ++batch) {
    for (int64_t key = 0; key < inputs.seqused_k[batch]; ++key) {
      const auto entry = batch * width + static_cast<size_t>(key / page_size);
      used[static_cast<size_t>(inputs.block_table[entry] * page_size + key % page_size)] = true;
    }
  }
  return used;
}

// The rows of q, and those of k and v, that some output depends on: none of a packed sequence that
// has queries and no keys, or keys and no queries.
struct UsedRows {
  std::vector<bool> of_q, of_k;
};

UsedRows used_rows(const Problem& problem, const reference::Sizes& sizes,
                   const TrialTensors& inputs) {
  const auto of_sequences = [&](const std::vector<int32_t>& sums, int64_t total,
                                const std::vector<int32_t>& others) {
    std::vector<bool> used(static_cast<size_t>(total), false);
    for (size_t batch = 0; batch + 1 < sums.size(); ++batch) {
      if (!others.empty() && others[batch] == others[batch + 1]) continue;
      std::fill(used.begin() + sums[batch], used.begin() + sums[batch + 1], true);
    }
    return used;
  };
  UsedRows used;
  used.of_q = problem.varlen
                  ? of_sequences(inputs.cu_seqlens_q, inputs.total_q, inputs.cu_seqlens_k)
                  : std::vector<bool>(static_cast<size_t>(sizes.batch * sizes.seqlen_q), true);
  used.of_k = problem.page_size
                  ? rows_in_use(*problem.page_size, inputs)
                  : of_sequences(inputs.cu_seqlens_k, inputs.total_k, inputs.cu_seqlens_q);
  return used;
}

// The others become NaN, or every other one infinite.
void poison_unused_rows(const std::vector<bool>& used, int64_t row_elements,
                        std::vector<float>& values) {
  for (size_t row = 0; row < used.size(); ++row) {
    if (used[row]) continue;
    const float poison = row % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                      : std::numeric_limits<float>::infinity();
    std::fill_n(values.begin() + static_cast<ptrdiff_t>(row) * row_elements, row_elements, poison);
  }
}

// Rows [first, first + count) of `row` elements each.
std::span<const float> rows_of(std::span<const float> all, int64_t first, int64_t count,
                               int64_t row) {
  return all.subspan(static_cast<size_t>(first * row), static_cast<size_t>(count * row));
}

// One sequence of a batch: its sizes, its inputs and its part of the outputs.
struct Sequence {
  reference::Sizes sizes = {};
  std::span<const float> q;
  std::vector<float> k, v;
  std::span<const float> out;
  std::vector<float> lse;
  reference::MaskData masks = {};
  std::vector<uint8_t> blocks;
};

void take_queries(const Problem& problem, const reference::Sizes& sizes, const TrialTensors& inputs,
                  const TrialOutputs& outputs, int64_t batch, Sequence& sequence) {
  const auto [first, length, first_k, keys] = sequence_rows(problem, sizes, inputs, batch);
  const int64_t total = problem.varlen ? inputs.total_q : sizes.seqlen_q;
  sequence.sizes.seqlen_q = length;
  sequence.q = rows_of(inputs.q, first, length, sizes.num_heads_q * sizes.head_dim_qk);
  sequence.out = rows_of(outputs.out, first, length, sizes.num_heads_q * sizes.head_dim_v);
  for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
    const int64_t row =
        problem.varlen ? head * total + first : (batch * sizes.num_heads_q + head) * total;
    const auto lse = rows_of(outputs.lse, row, length, 1);
    sequence.lse.insert(sequence.lse.end(), lse.begin(), lse.end());
  }
}

Status take_keys(const Problem& problem, const reference::Sizes& sizes, const TrialTensors& inputs,
                 int64_t batch, Sequence& sequence) {
  if (problem.page_size) {
    const reference::PagedKeys cache = {
        .k_pages = inputs.k,
        .v_pages = inputs.v,
        .page_size = *problem.page_size,
        .block_table = inputs.block_table,
        .table_width = std::ssize(inputs.block_table) / std::max<int64_t>(1, sizes.batch),
        .seqused_k = inputs.seqused_k};
    TW_ASSIGN(reference::SequenceKeys keys, reference::gather_keys(sizes, cache, batch));
    sequence.sizes.seqlen_k = keys.sizes.seqlen_k;
    sequence.k = std::move(keys.k);
    sequence.v = std::move(keys.v);
    return {};
  }
  const SequenceRows rows = sequence_rows(problem, sizes, inputs, batch);
  sequence.sizes.seqlen_k = rows.seqlen_k;
  const auto copy = [&](std::span<const float> all, int64_t dim) {
    const auto part = rows_of(all, rows.first_k, rows.seqlen_k, sizes.num_heads_kv * dim);
    return std::vector<float>(part.begin(), part.end());
  };
  sequence.k = copy(inputs.k, sizes.head_dim_qk);
  sequence.v = copy(inputs.v, sizes.head_dim_v);
  return {};
}

// Outputs start as NaN: rows that belong to no sequence must still be.
reference::Comparison untouched_rest(const reference::Sizes& sizes, const TrialTensors& inputs,
                                     const TrialOutputs& outputs) {
  const int64_t first = inputs.cu_seqlens_q.back();
  const int64_t count = inputs.total_q - first;
  const auto untouched = [](std::span<const float> rows) {
    return std::all_of(rows.begin(), rows.end(), [](float value) { return std::isnan(value); });
  };
  reference::Comparison comparison;
  comparison.ok =
      untouched(rows_of(outputs.out, first, count, sizes.num_heads_q * sizes.head_dim_v));
  for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
    comparison.ok &= untouched(rows_of(outputs.lse, head * inputs.total_q + first, count, 1));
  }
  if (!comparison.ok) comparison.detail = fmt::format("some of rows {} on was written", first);
  return comparison;
}

// Of ids the sequence's own, of blocks those in the rows and columns that it has.
void take_mask_data(const Problem& problem, const reference::Sizes& sizes,
                    const TrialTensors& inputs, int64_t batch, Sequence& sequence) {
  const SequenceRows rows = sequence_rows(problem, sizes, inputs, batch);
  const auto ids = [](const std::vector<int32_t>& all, int64_t first, int64_t count) {
    return std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  };
  if (find_mask<DocumentsMask>(problem) != nullptr) {
    sequence.masks.documents_q = ids(inputs.documents_q, rows.first_q, rows.seqlen_q);
    sequence.masks.documents_k = ids(inputs.documents_k, rows.first_k, rows.seqlen_k);
  }
  const auto* blocks = find_mask<BlocksMask>(problem);
  if (blocks == nullptr) return;
  const auto count = [&](int64_t length) { return ceil_div(length, blocks->size); };
  const int64_t height = count(sizes.seqlen_q), width = count(sizes.seqlen_k);
  const int64_t first = inputs.blocks_batch == 1 ? 0 : batch * inputs.blocks_heads;
  for (int64_t head = first; head < first + inputs.blocks_heads; ++head) {
    for (int64_t row = 0; row < count(rows.seqlen_q); ++row) {
      const auto flags = inputs.blocks.begin() + (head * height + row) * width;
      sequence.blocks.insert(sequence.blocks.end(), flags, flags + count(rows.seqlen_k));
    }
  }
  sequence.masks.blocks = sequence.blocks;
  sequence.masks.blocks_heads = inputs.blocks_heads;
}

}  // namespace

reference::Sizes stored_sizes(const Problem& problem, reference::Sizes sizes) {
  const int64_t page = problem.page_size.value_or(1);
  sizes.seqlen_k = ceil_div(sizes.seqlen_k, page) * page;
  return sizes;
}

TrialTensors random_sequences(const Problem& problem, const reference::Sizes& sizes,
                              uint64_t seed) {
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  TrialTensors inputs;
  if (problem.varlen) {
    inputs.cu_seqlens_q = random_prefix_sums(sizes.batch, sizes.seqlen_q, mix(seed) + 7);
    inputs.total_q = random_total(inputs.cu_seqlens_q, mix(seed) + 7);
  }
  if (problem.page_size) {
    add_random_pages(*problem.page_size, sizes, mix(seed) + 9, inputs);
  } else {
    inputs.cu_seqlens_k = random_prefix_sums(sizes.batch, sizes.seqlen_k, mix(seed) + 8);
    inputs.total_k = random_total(inputs.cu_seqlens_k, mix(seed) + 8);
  }
  const UsedRows used = used_rows(problem, sizes, inputs);
  const auto matrix = [&](const std::vector<bool>& rows, int64_t row, uint64_t offset) {
    const int64_t count = static_cast<int64_t>(rows.size()) * row;
    std::vector<float> values = normal_values(count, mix(seed) + offset, dtype);
    poison_unused_rows(rows, row, values);
    return values;
  };
  inputs.q = matrix(used.of_q, sizes.num_heads_q * sizes.head_dim_qk, 1);
  inputs.k = matrix(used.of_k, sizes.num_heads_kv * sizes.head_dim_qk, 2);
  inputs.v = matrix(used.of_k, sizes.num_heads_kv * sizes.head_dim_v, 3);
  return inputs;
}

Status check_sequences(const Problem& problem, const TrialTensors& inputs, const Shape& shape) {
  if (problem.varlen) {
    TW_TRY(check_cu_seqlens("cu_seqlens_q", inputs.cu_seqlens_q, inputs.total_q, shape.seqlen_q));
  }
  if (problem.page_size) {
    const int64_t width = ceil_div(shape.seqlen_k, *problem.page_size);
    TW_TRY(check_pages(inputs.block_table, width, inputs.seqused_k, *problem.page_size,
                       inputs.num_pages));
    for (size_t batch = 0; batch < inputs.seqused_k.size(); ++batch) {
      if (inputs.seqused_k[batch] <= shape.seqlen_k) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        "seqused_k[{}] = {} keys, a sequence has at most {}", batch,
                        inputs.seqused_k[batch], shape.seqlen_k);
    }
    return {};
  }
  if (!problem.varlen) return {};
  return check_cu_seqlens("cu_seqlens_k", inputs.cu_seqlens_k, inputs.total_k, shape.seqlen_k);
}

Shape trial_shape(const Problem& problem, const reference::Sizes& sizes,
                  const TrialTensors& inputs) {
  Shape shape = {.batch = sizes.batch,
                 .seqlen_q = sizes.seqlen_q,
                 .seqlen_k = sizes.seqlen_k,
                 .num_heads_q = sizes.num_heads_q,
                 .num_heads_kv = sizes.num_heads_kv};
  if (problem.varlen) shape.total_q = inputs.total_q;
  if (problem.varlen && !problem.page_size) shape.total_k = inputs.total_k;
  if (problem.page_size) shape.num_pages = inputs.num_pages;
  return shape;
}

Result<Verdict> verify_sequences(const Problem& problem, const reference::Sizes& sizes,
                                 const TrialTensors& inputs, const TrialOutputs& outputs) {
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  Problem plain_problem = problem;
  plain_problem.varlen = false;
  plain_problem.page_size.reset();
  Verdict verdict;
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    Sequence sequence;
    sequence.sizes = sizes;
    sequence.sizes.batch = 1;
    take_queries(problem, sizes, inputs, outputs, batch, sequence);
    TW_TRY(take_keys(problem, sizes, inputs, batch, sequence));
    take_mask_data(problem, sizes, inputs, batch, sequence);
    const reference::Inputs view = {sequence.q, sequence.k, sequence.v, sequence.masks};
    TW_ASSIGN(const reference::Forward expected,
              reference::attention_forward(plain_problem, sequence.sizes, view));
    TW_ASSIGN(const std::vector<float> plain, reference::attention_forward_same_precision(
                                                  plain_problem, sequence.sizes, view, dtype));
    verdict.outputs.emplace_back(fmt::format("out of sequence {}", batch),
                                 reference::compare_out(plain_problem, sequence.sizes, dtype,
                                                        sequence.out, expected, plain));
    verdict.outputs.emplace_back(
        fmt::format("lse of sequence {}", batch),
        reference::compare_lse(plain_problem, sequence.sizes, sequence.lse, expected));
  }
  if (problem.varlen && inputs.total_q > inputs.cu_seqlens_q.back()) {
    verdict.outputs.emplace_back("rows of no sequence", untouched_rest(sizes, inputs, outputs));
  }
  return verdict;
}

}  // namespace tilewright
