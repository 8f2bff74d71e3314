#include "core/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/files.h"
#include "tests/core/scratch_folder.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

NpyArray sample(NpyType type, std::vector<int64_t> shape) {
  NpyArray array{type, std::move(shape), {}};
  array.data.resize(static_cast<size_t>(array.num_elements() * size_in_bytes(type)));
  for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = static_cast<std::byte>(i * 31);
  return array;
}

TEST(Npy, RoundTripsEveryType) {
  const ScratchFolder folder;
  for (const NpyType type :
       {NpyType::kFloat16, NpyType::kFloat32, NpyType::kFloat64, NpyType::kUint16, NpyType::kUint8,
        NpyType::kInt32, NpyType::kInt64, NpyType::kBool}) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{}, {0}, {5}, {2, 3, 4}, {7, 0, 2}}) {
      const NpyArray array = sample(type, shape);
      ASSERT_TRUE(write_npy(folder / "a.npy", array).ok());
      const Result<NpyArray> again = read_npy(folder / "a.npy");
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(again->type, type);
      EXPECT_EQ(again->shape, shape);
      EXPECT_EQ(again->data, array.data);
    }
  }
}

// Bytes as numpy.save wrote them: np.save(f, np.array([[1, -2]], dtype='<f2')).
TEST(Npy, ReadsWhatNumpyWrites) {
  std::string bytes("\x93NUMPY\x01\x00v\x00", 10);
  std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }";
  header.append(117 - header.size(), ' ');
  bytes += header + "\n";
  bytes += std::string("\x00\x3c\x00\xc0", 4);
  ASSERT_EQ(bytes.size(), 132u);
  const Result<NpyArray> array = parse_npy(bytes, "a.npy");
  ASSERT_TRUE(array.ok()) << array.error().message;
  EXPECT_EQ(array->type, NpyType::kFloat16);
  EXPECT_EQ(array->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(format_npy(*array), bytes);
}

std::string with_header(const std::string& header, size_t data_bytes, char version = '\x01') {
  std::string bytes("\x93NUMPY", 6);
  bytes += {version, '\0', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  if (version != '\x01') bytes += std::string(2, '\0');
  return bytes + header + std::string(data_bytes, '\0');
}

TEST(Npy, ReadsVersionTwo) {
  EXPECT_TRUE(
      parse_npy(
          with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n", 12, '\x02'), "x")
          .ok());
}

TEST(Npy, ErrorsNameFileAndField) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  ASSERT_TRUE(parse_npy(with_header(good, 24), "x").ok());
  struct Case {
    std::string bytes, field, words;
  };
  const Case cases[] = {
      {"", "magic", "not a .npy"},
      {"PK\x03\x04 zip", "magic", "not a .npy"},
      {std::string("\x93NUMPY", 6), "version", "cut off"},
      {std::string("\x93NUMPY\x09\x00\x10\x00", 10), "version", "9"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "header length", "65535"},
      {with_header(good, 23), "data", "24"},
      {with_header(good, 25), "data", "25 bytes"},
      {with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8), "descr",
       "big endian"},
      {with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", 8), "descr", "'<c8'"},
      {with_header("{'descr': '', 'fortran_order': False, 'shape': (2,)}", 8), "descr", "empty"},
      {with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8), "descr",
       "structured"},
      {with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24), "fortran_order",
       "C order"},
      {with_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", 24), "fortran_order",
       "True or False"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}", 24), "shape",
       "negative"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", 24), "shape", "','"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", 24), "shape",
       "integer"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': "
                   "(4294967296, 4294967296)}",
                   0),
       "shape", "64 bits"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': 6}", 24), "shape", "tuple"},
      {with_header("{'descr': '<f4', 'shape': (2,)}", 8), "fortran_order", "missing"},
      {with_header("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", 8), "descr", "twice"},
      {with_header("{'colour': 1}", 0), "header", "colour"},
      {with_header("{'descr': '<f4", 0), "descr", "not closed"},
      {with_header("[]", 0), "header", "dict"},
      {with_header(good + "x", 24), "header", "after"},
  };
  for (const Case& c : cases) {
    const Result<NpyArray> array = parse_npy(c.bytes, "dir/q.npy");
    ASSERT_FALSE(array.ok()) << c.field << ": " << c.words;
    EXPECT_EQ(array.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(array.error().message, HasSubstr("dir/q.npy: " + c.field + ": "));
    EXPECT_THAT(array.error().message, HasSubstr(c.words));
  }
}

TEST(Npy, AnyCutOrFlipIsAnErrorOrAnArray) {
  const std::string good = format_npy(sample(NpyType::kFloat32, {2, 3}));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse_npy(good.substr(0, length), "x").ok()) << length;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const Result<NpyArray> array = parse_npy(bytes, "x");
      if (array.ok()) {
        EXPECT_EQ(static_cast<int64_t>(array->data.size()),
                  array->num_elements() * size_in_bytes(array->type));
      }
    }
  }
}

// What a file holds must not reach the terminal as an escape code.
TEST(Npy, MessagesShowNoControlCharacters) {
  const std::string good = format_npy(sample(NpyType::kFloat32, {2, 3}));
  for (const std::string word : {"<f4", "descr"}) {
    std::string bytes = good;
    bytes.replace(bytes.find(word), 3, "\x1b[2");
    const Result<NpyArray> array = parse_npy(bytes, "x");
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.error().message.find('\x1b'), std::string::npos);
    EXPECT_THAT(array.error().message, HasSubstr("'?[2"));
  }
}

TEST(Npy, MissingFile) {
  EXPECT_EQ(read_npy("/nonexistent/q.npy").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace tilewright
