// Content hashes: SHA-256 for cache keys and identities, and a fast 64-bit checksum for noticing
// damage. Neither depends on the machine or the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tilewright {

// 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

// SHA-256 of data that come in pieces. update_field() also hashes name and length, so that two
// different sequences of fields never give the same stream of bytes.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::string_view bytes);
  void update_field(std::string_view name, std::string_view value);
  // 64 lower-case hex digits of everything so far; more may follow.
  std::string hex() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// XXH64 with seed 0.
uint64_t checksum64(std::string_view bytes);

}  // namespace tilewright
