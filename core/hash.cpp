#include "core/hash.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/xxhash.h>

#include <array>

namespace tilewright {
namespace {

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

std::string to_hex(llvm::StringRef digest) { return llvm::toHex(digest, /*LowerCase=*/true); }

}  // namespace

struct Sha256::Impl {
  llvm::SHA256 hasher;
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) { impl_->hasher.update(ref(bytes)); }

void Sha256::update_field(std::string_view name, std::string_view value) {
  for (const std::string_view part : {name, value}) {
    std::array<char, 8> length{};
    for (size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<char>(uint64_t{part.size()} >> (8 * i));
    }
    update({length.data(), length.size()});
    update(part);
  }
}

std::string Sha256::hex() const {
  llvm::SHA256 copy = impl_->hasher;  // final() ends the stream of the one it is called on
  return to_hex(copy.final());
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hasher;
  hasher.update(bytes);
  return hasher.hex();
}

uint64_t checksum64(std::string_view bytes) { return llvm::xxHash64(ref(bytes)); }

}  // namespace tilewright
