// Json: a plain value that prints to and parses from JSON text. Objects keep the order in which
// their members were added, so that output is stable and reads well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tilewright/result.h"

namespace tilewright {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  // Numbers without a fraction are int64; larger uint64 values become doubles.
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Json(T value) {
    if (std::in_range<int64_t>(value)) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<double>(value);
    }
  }
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }
  static Json object(std::initializer_list<Member> members) { return Json(Object(members)); }

  // Adds or replaces a member. A null value becomes an object first; any other kind is a bug.
  Json& set(std::string_view key, Json value);
  // Appends an element. A null value becomes an array first; any other kind is a bug.
  Json& push(Json value);

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  // Null if the value is of another kind. as_double also takes integers.
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&value_); }
  bool is_number() const;
  double as_double(double fallback = 0) const;
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  // The member, or null if this is no object or has none of that name.
  const Json* find(std::string_view key) const;

  // Text on one line, or indented by two spaces a level. Infinities and NaN, which JSON lacks,
  // print as null; bytes that are not UTF-8 as U+FFFD.
  std::string dump(bool indent = false) const;
  // Members come sorted by name; 2.0 reads as the integer 2. kParseError with line, column and
  // what was expected. Nothing may follow the value.
  static Result<Json> parse(std::string_view text);

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace tilewright
