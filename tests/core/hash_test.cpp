#include "core/hash.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

// FIPS 180-4 examples.
TEST(Sha256, MatchesPublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  const std::string text(1000, 'x');
  for (size_t cut : {0, 1, 55, 56, 63, 64, 65, 999, 1000}) {
    Sha256 hasher;
    hasher.update(std::string_view(text).substr(0, cut));
    EXPECT_EQ(hasher.hex(), sha256_hex(text.substr(0, cut)));
    hasher.update(std::string_view(text).substr(cut));
    EXPECT_EQ(hasher.hex(), sha256_hex(text)) << cut;
  }
}

TEST(Sha256, FieldsDoNotRunTogether) {
  const auto hash = [](std::string_view name, std::string_view value) {
    Sha256 hasher;
    hasher.update_field(name, value);
    return hasher.hex();
  };
  EXPECT_NE(hash("ab", "c"), hash("a", "bc"));
  EXPECT_EQ(hash("ab", "c"), hash("ab", "c"));
}

// From the reference implementation's own test data.
TEST(Checksum64, MatchesPublishedVectors) {
  EXPECT_EQ(checksum64(""), 0xef46db3751d8e999u);
  EXPECT_EQ(checksum64("abc"), 0x44bc2cf5ad770999u);
  EXPECT_NE(checksum64("abd"), checksum64("abc"));
}

}  // namespace
}  // namespace tilewright
