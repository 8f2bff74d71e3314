// Count: a 64-bit number of words that remembers whether it overflowed, so that closed forms read
// like the formulas they are and still never print a wrapped number.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ceil_div.h"
#include "core/check.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

class Count {
 public:
  constexpr Count() = default;
  constexpr Count(int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  constexpr bool overflowed() const { return overflowed_; }
  // Meaningful only while not overflowed().
  constexpr int64_t value() const { return value_; }
  // kOverflow names `what`.
  Result<int64_t> checked(std::string_view what) const {
    if (overflowed_) return make_error(ErrorCode::kOverflow, "{} does not fit in 64 bits", what);
    return value_;
  }

  friend constexpr Count operator+(Count a, Count b) {
    Count sum;
    const bool wrapped = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.overflowed_ = a.overflowed_ || b.overflowed_ || wrapped;
    return sum;
  }
  friend constexpr Count operator*(Count a, Count b) {
    Count product;
    const bool wrapped = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.overflowed_ = a.overflowed_ || b.overflowed_ || wrapped;
    return product;
  }
  constexpr Count& operator+=(Count other) { return *this = *this + other; }

  // An overflowed count is larger than any other and equal to none.
  friend constexpr bool operator<(Count a, Count b) {
    return !a.overflowed_ && (b.overflowed_ || a.value_ < b.value_);
  }
  friend constexpr bool operator<=(Count a, Count b) {
    return !a.overflowed_ && (b.overflowed_ || a.value_ <= b.value_);
  }
  friend constexpr bool operator==(Count a, Count b) {
    return !a.overflowed_ && !b.overflowed_ && a.value_ == b.value_;
  }

 private:
  int64_t value_ = 0;
  bool overflowed_ = false;
};

// Words moved, reads and writes apart, and the most words that were in fast memory at once.
struct Traffic {
  Count reads, writes, peak;

  constexpr Count total() const { return reads + writes; }
  friend constexpr bool operator==(const Traffic&, const Traffic&) = default;
};

// One stage after another: traffic adds up, the peak is the larger one.
constexpr Traffic operator+(const Traffic& a, const Traffic& b) {
  return {a.reads + b.reads, a.writes + b.writes, a.peak < b.peak ? b.peak : a.peak};
}

}  // namespace tilewright::io_model
