#include "cli/mask_input.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "cli/npy_values.h"
#include "core/ceil_div.h"
#include "core/check.h"
#include "core/find_mask.h"

namespace tilewright::cli {
namespace {

// [rows, columns], or with batches and heads before them, each of which may be 1.
Status read_blocks(const std::string& path, RunInput& input) {
  const int64_t size = find_mask<BlocksMask>(input.problem)->size;
  const auto count = [&](int64_t length) { return ceil_div(length, size); };
  const int64_t rows = count(input.sizes.seqlen_q), columns = count(input.sizes.seqlen_k);
  TW_ASSIGN(const NpyArray array, read_input_file(path));
  if (array.type != NpyType::kUint8 && array.type != NpyType::kBool) {
    return wrong_file(
        path, "descr",
        fmt::format("{} is given, blocks needs uint8 or bool", to_string(array.type)));
  }
  std::vector<int64_t> shape = array.shape;
  if (shape.size() == 2) shape.insert(shape.begin(), {1, 1});
  const auto fits = [](int64_t given, int64_t wanted) { return given == 1 || given == wanted; };
  if (shape.size() != 4 || !fits(shape[0], input.sizes.batch) ||
      !fits(shape[1], input.sizes.num_heads_q) || shape[2] != rows || shape[3] != columns) {
    return wrong_file(path, "shape",
                      fmt::format("[{}] is not [{}, {}], or that with batches and heads before it",
                                  fmt::join(array.shape, ", "), rows, columns));
  }
  input.tensors.blocks_batch = shape[0];
  input.tensors.blocks_heads = shape[1];
  const auto* flags = reinterpret_cast<const uint8_t*>(array.data.data());
  input.tensors.blocks.assign(flags, flags + array.data.size());
  return {};
}

Status read_documents(const std::string& path, RunInput& input) {
  const reference::Sizes& sizes = input.sizes;
  TW_ASSIGN(const NpyArray array, read_integer_file(path));
  if (array.type != NpyType::kInt32) {
    return wrong_file(
        path, "descr",
        fmt::format("{} is given, documents needs int32 or int64", to_string(array.type)));
  }
  const bool packed = input.problem.varlen && !input.problem.page_size;
  const std::vector<int64_t> wanted = packed ? std::vector<int64_t>{input.tensors.total_k}
                                             : std::vector<int64_t>{sizes.batch, sizes.seqlen_k};
  if (array.shape != wanted) {
    return wrong_file(
        path, "shape",
        fmt::format("[{}] is not [{}], {}", fmt::join(array.shape, ", "), fmt::join(wanted, ", "),
                    packed ? "the packed keys" : "the batch and the keys"));
  }
  input.tensors.documents_k = integer_values(array);
  const std::vector<int32_t>& ids = input.tensors.documents_k;
  const auto reserved = std::find(ids.begin(), ids.end(), INT32_MIN);
  if (reserved != ids.end()) {
    return wrong_file(path, "data",
                      fmt::format("{} at element {} is kept for queries before the first key",
                                  *reserved, reserved - ids.begin()));
  }
  input.tensors.documents_q = query_documents(input.problem, sizes, input.tensors);
  return {};
}

}  // namespace

Status read_mask_data(const InputFiles& files, RunInput& input) {
  struct Kind {
    std::string_view name;
    const std::string& path;
    bool wanted;
    Status (*read)(const std::string& path, RunInput& input);
  };
  const Kind kinds[] = {
      {"blocks", files.blocks, find_mask<BlocksMask>(input.problem) != nullptr, read_blocks},
      {"documents", files.documents, find_mask<DocumentsMask>(input.problem) != nullptr,
       read_documents}};
  for (const Kind& kind : kinds) {
    if (!kind.path.empty() && !kind.wanted) {
      return make_error(ErrorCode::kInvalidArgument, "--{} is given, but '{}' has no mask {}",
                        kind.name, input.problem.to_string(), kind.name);
    }
    if (!kind.path.empty()) TW_TRY(kind.read(kind.path, input));
    if (!kind.wanted || !kind.path.empty()) continue;
    if (files.any()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--{} is missing: the mask {} of '{}' needs it beside --q, --k and --v",
                        kind.name, kind.name, input.problem.to_string());
    }
    input.notes.push_back(fmt::format("{}: random, by the seed", kind.name));
  }
  return {};
}

}  // namespace tilewright::cli
