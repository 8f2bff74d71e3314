#include "core/json.h"

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {
namespace {

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

std::string valid_utf8(const std::string& text) {
  return llvm::json::isUTF8(text) ? text : llvm::json::fixUTF8(text);
}

void print(const Json& json, llvm::json::OStream& out) {
  if (const Json::Object* object = json.as_object()) {
    out.object([&] {
      for (const auto& [key, value] : *object) {
        out.attributeBegin(valid_utf8(key));
        print(value, out);
        out.attributeEnd();
      }
    });
  } else if (const Json::Array* array = json.as_array()) {
    out.array([&] {
      for (const Json& value : *array) print(value, out);
    });
  } else if (const std::string* text = json.as_string()) {
    out.value(valid_utf8(*text));
  } else if (const bool* flag = json.as_bool()) {
    out.value(*flag);
  } else if (const int64_t* integer = json.as_int()) {
    out.value(*integer);
  } else if (json.is_number() && std::isfinite(json.as_double())) {
    out.rawValue(fmt::format("{}", json.as_double()));  // shorter than LLVM's 17 digits
  } else {
    out.value(nullptr);
  }
}

Json convert(const llvm::json::Value& value) {
  if (const llvm::json::Object* object = value.getAsObject()) {
    Json::Object members;
    for (const auto& [key, member] : *object) members.emplace_back(key.str(), convert(member));
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return members;
  }
  if (const llvm::json::Array* array = value.getAsArray()) {
    Json::Array elements;
    elements.reserve(array->size());
    for (const llvm::json::Value& element : *array) elements.push_back(convert(element));
    return elements;
  }
  if (const auto text = value.getAsString()) return text->str();
  if (const auto flag = value.getAsBoolean()) return *flag;
  if (const auto integer = value.getAsInteger()) return *integer;
  if (const auto number = value.getAsNumber()) return *number;
  return nullptr;
}

// LLVM's parser recurses; deep nesting would exhaust the stack.
bool too_deep(std::string_view text) {
  constexpr int kMaxDepth = 256;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  Object* object = std::get_if<Object>(&value_);
  TW_CHECK(object != nullptr, "member '{}' of a value that is no object", key);
  for (auto& [name, member] : *object) {
    if (name == key) {
      member = std::move(value);
      return *this;
    }
  }
  object->emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  Array* array = std::get_if<Array>(&value_);
  TW_CHECK(array != nullptr, "an element of a value that is no array");
  array->push_back(std::move(value));
  return *this;
}

bool Json::is_number() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<double>(value_);
}

double Json::as_double(double fallback) const {
  if (const int64_t* integer = as_int()) return static_cast<double>(*integer);
  const double* number = std::get_if<double>(&value_);
  return number != nullptr ? *number : fallback;
}

const Json* Json::find(std::string_view key) const {
  if (const Object* object = as_object()) {
    for (const auto& [name, member] : *object) {
      if (name == key) return &member;
    }
  }
  return nullptr;
}

std::string Json::dump(bool indent) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  {
    llvm::json::OStream out(stream, indent ? 2 : 0);
    print(*this, out);
  }
  stream.flush();
  return text;
}

Result<Json> Json::parse(std::string_view text) {
  if (too_deep(text)) return make_error(ErrorCode::kParseError, "JSON is nested too deeply");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(ref(text));
  if (!value) {
    return make_error(ErrorCode::kParseError, "{}", llvm::toString(value.takeError()));
  }
  return convert(*value);
}

}  // namespace tilewright
