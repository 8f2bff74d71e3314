#include "core/npy.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "core/check.h"
#include "core/files.h"
#include "core/text.h"

namespace tilewright {
namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeRow {
  NpyType type;
  std::string_view name, descr;
  int64_t bytes;
};

constexpr std::array kTypes = {
    TypeRow{NpyType::kFloat16, "float16", "<f2", 2},
    TypeRow{NpyType::kFloat32, "float32", "<f4", 4},
    TypeRow{NpyType::kFloat64, "float64", "<f8", 8},
    TypeRow{NpyType::kUint16, "uint16", "<u2", 2},
    TypeRow{NpyType::kUint8, "uint8", "|u1", 1},
    TypeRow{NpyType::kInt32, "int32", "<i4", 4},
    TypeRow{NpyType::kInt64, "int64", "<i8", 8},
    TypeRow{NpyType::kBool, "bool", "|b1", 1},
};

const TypeRow& row_of(NpyType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row;
  }
  TW_CHECK(false, "NpyType {} is not in the table", static_cast<int>(type));
  return kTypes[0];
}

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // of the first byte of data, as NumPy writes it

// product of the extents, or nullopt if it leaves 64 bits.
std::optional<int64_t> product(const std::vector<int64_t>& shape) {
  int64_t result = 1;
  bool overflow = false;
  for (const int64_t extent : shape) {
    if (extent == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(result, extent, &result);
  }
  if (overflow) return std::nullopt;
  return result;
}

// Reads the header: a Python dict literal with the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Status parse(NpyArray& array) {
    if (!take('{')) return wrong("header", "expected a dict");
    bool fortran_order = false;
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      TW_ASSIGN(const std::string_view key, quoted("header"));
      if (!take(':')) return wrong("header", "expected ':' after a key");
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr) return wrong("header", fmt::format("unknown key '{}'", excerpt(key)));
      if (*seen) return wrong(key, "given twice");
      *seen = true;
      if (key == "descr") {
        TW_ASSIGN(array.type, descr());
      } else if (key == "fortran_order") {
        TW_ASSIGN(fortran_order, boolean());
      } else {
        TW_ASSIGN(array.shape, shape());
      }
      if (!take(',') && !peek('}')) return wrong("header", "expected ',' or '}'");
    }
    skip_space();
    if (!text_.empty()) return wrong("header", "text after the dict");
    if (!has_descr) return wrong("descr", "missing");
    if (!has_order) return wrong("fortran_order", "missing");
    if (!has_shape) return wrong("shape", "missing");
    if (fortran_order && array.shape.size() > 1) {
      return wrong("fortran_order",
                   "True: only C order is read; save it with np.save(file, "
                   "np.ascontiguousarray(array))");
    }
    return {};
  }

 private:
  Error wrong(std::string_view field, std::string_view what) const {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}: {}", name_, field, what);
  }

  void skip_space() {
    const size_t begin = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(begin == std::string_view::npos ? text_.size() : begin);
  }

  bool peek(char c) {
    skip_space();
    return text_.starts_with(c);
  }

  bool take(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  Result<std::string_view> quoted(std::string_view field) {
    const char quote = peek('"') ? '"' : '\'';
    if (!take(quote)) return wrong(field, "expected a quoted text");
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return wrong(field, "a quote is not closed");
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }

  Result<NpyType> descr() {
    if (peek('[')) return wrong("descr", "structured types are not read");
    TW_ASSIGN(const std::string_view text, quoted("descr"));
    if (text.empty()) return wrong("descr", "is empty");
    for (const TypeRow& row : kTypes) {
      if (text == row.descr || (row.bytes == 1 && text.substr(1) == row.descr.substr(1))) {
        return row.type;
      }
      if (text.starts_with('>') && text.substr(1) == row.descr.substr(1)) {
        return wrong("descr", fmt::format("'{}' is big endian; save it as '{}'", text, row.descr));
      }
    }
    return wrong("descr", fmt::format("'{}' is not one of float16, float32, float64, uint16, "
                                      "uint8, int32, int64, bool",
                                      excerpt(text)));
  }

  Result<bool> boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    }
    return wrong("fortran_order", "expected True or False");
  }

  Result<std::vector<int64_t>> shape() {
    if (!take('(')) return wrong("shape", "expected a tuple");
    std::vector<int64_t> extents;
    while (!take(')')) {
      skip_space();
      const std::string_view digits = text_.substr(0, text_.find_first_not_of("-0123456789"));
      const Result<int64_t> extent = parse_int(digits);
      if (!extent.ok()) return wrong("shape", extent.error().message);
      if (*extent < 0) return wrong("shape", fmt::format("extent {} is negative", *extent));
      extents.push_back(*extent);
      text_.remove_prefix(digits.size());
      if (!take(',') && !peek(')')) return wrong("shape", "expected ',' or ')'");
    }
    constexpr size_t kMaxRank = 32;  // NumPy's own limit
    if (extents.size() > kMaxRank) return wrong("shape", "more than 32 extents");
    return extents;
  }

  std::string_view text_;
  const std::string& name_;
};

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::string_view to_string(NpyType type) { return row_of(type).name; }
int64_t size_in_bytes(NpyType type) { return row_of(type).bytes; }

int64_t NpyArray::num_elements() const {
  const std::optional<int64_t> count = product(shape);
  TW_CHECK(count.has_value(), "the shape of an array overflows");
  return *count;
}

Result<NpyArray> parse_npy(std::string_view bytes, const std::string& name) {
  const auto wrong = [&](std::string_view field, std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}: {}", name, field, what);
  };
  if (!bytes.starts_with(kMagic)) return wrong("magic", "this is not a .npy file");
  if (bytes.size() < kMagic.size() + 2) return wrong("version", "the file is cut off");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) return wrong("version", fmt::format("{} is not known", major));
  const size_t length_bytes = major == 1 ? 2 : 4;
  bytes.remove_prefix(kMagic.size() + 2);
  if (bytes.size() < length_bytes) return wrong("header length", "the file is cut off");
  const size_t length = little_endian(bytes.substr(0, length_bytes));
  bytes.remove_prefix(length_bytes);
  if (bytes.size() < length) {
    return wrong("header length",
                 fmt::format("{} bytes, of which the file has {}", length, bytes.size()));
  }

  NpyArray array;
  TW_TRY(HeaderParser(bytes.substr(0, length), name).parse(array));
  bytes.remove_prefix(length);
  const std::optional<int64_t> count = product(array.shape);
  int64_t expected = 0;
  if (!count || __builtin_mul_overflow(*count, size_in_bytes(array.type), &expected)) {
    return wrong("shape", "the size does not fit in 64 bits");
  }
  if (static_cast<int64_t>(bytes.size()) != expected) {
    return wrong("data",
                 fmt::format("{} bytes, but shape and type need {}", bytes.size(), expected));
  }
  array.data.resize(bytes.size());
  if (!bytes.empty()) std::memcpy(array.data.data(), bytes.data(), bytes.size());
  return array;
}

std::string format_npy(const NpyArray& array) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", row_of(array.type).descr);
  for (size_t i = 0; i < array.shape.size(); ++i) {
    header += fmt::format("{}{}", i == 0 ? "" : ", ", array.shape[i]);
  }
  header += array.shape.size() == 1 ? ",), }" : "), }";
  constexpr size_t kPrefix = 10;  // magic, version, length
  const size_t used = kPrefix + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';

  TW_CHECK(header.size() <= 0xffff, "a header of {} bytes", header.size());
  TW_CHECK(
      static_cast<int64_t>(array.data.size()) == array.num_elements() * size_in_bytes(array.type),
      "{} bytes of data for {} elements", array.data.size(), array.num_elements());
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return bytes;
}

Result<NpyArray> read_npy(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{1} << 40;
  // A device would be read without an end, and a pipe waited for.
  const Result<std::string> bytes = read_regular_file(path, kMaxBytes);
  if (bytes.ok()) return parse_npy(*bytes, path);
  if (bytes.error().code != ErrorCode::kInvalidArgument) return bytes.error();
  return make_error(ErrorCode::kInvalidArgument, "cannot read '{}': {}", path,
                    bytes.error().message);
}

Status write_npy(const std::string& path, const NpyArray& array) {
  return write_file_atomically(path, format_npy(array));
}

}  // namespace tilewright
