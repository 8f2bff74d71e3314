#include "cli/arguments.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {
namespace {

std::string listed(std::span<const std::string_view> words, std::string_view separator) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace

ArgumentParser::ArgumentParser(std::string_view command, std::string_view summary,
                               std::string_view usage)
    : command_(command), summary_(summary), usage_(usage) {}

void ArgumentParser::add(std::string_view name, std::string_view placeholder, std::string_view help,
                         std::function<Status(std::string_view)> read) {
  flags_.push_back({name, placeholder, help, std::move(read), group_});
}

void ArgumentParser::flag(std::string_view name, std::string_view help, bool& target) {
  add(name, "", help, [&target](std::string_view) {
    target = true;
    return Status();
  });
}

void ArgumentParser::text(std::string_view name, std::string_view placeholder,
                          std::string_view help, std::string& target) {
  add(name, placeholder, help, [name, &target](std::string_view value) -> Status {
    if (value.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "--{}: the value is empty", name);
    }
    target = value;
    return {};
  });
}

void ArgumentParser::integer(std::string_view name, std::string_view placeholder,
                             std::string_view help, int64_t least, int64_t most, int64_t& target) {
  add(name, placeholder, help, [=, &target](std::string_view value) -> Status {
    const Result<int64_t> number = parse_int(value);
    if (!number.ok()) {
      return make_error(ErrorCode::kInvalidArgument, "--{}: {}", name, number.error().message);
    }
    if (*number < least || *number > most) {
      return make_error(ErrorCode::kInvalidArgument, "--{}: {} is not in [{}, {}]", name, *number,
                        least, most);
    }
    target = *number;
    return {};
  });
}

void ArgumentParser::unsigned_integer(std::string_view name, std::string_view placeholder,
                                      std::string_view help, std::optional<uint64_t>& target) {
  add(name, placeholder, help, [=, &target](std::string_view value) -> Status {
    const Result<uint64_t> number = parse_uint(value);
    if (!number.ok()) {
      return make_error(ErrorCode::kInvalidArgument, "--{}: {}", name, number.error().message);
    }
    target = *number;
    return {};
  });
}

void ArgumentParser::choice(std::string_view name, std::initializer_list<std::string_view> words,
                            std::string_view help, std::string& target) {
  const std::vector<std::string_view> known(words);
  placeholders_.reserve(16);  // views into it are kept
  TW_CHECK(placeholders_.size() < placeholders_.capacity(), "too many flags with choices");
  placeholders_.push_back(listed(known, "|"));
  add(name, placeholders_.back(), help, [name, known, &target](std::string_view value) -> Status {
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      return make_error(ErrorCode::kInvalidArgument, "--{}: '{}' is not one of {}", name, value,
                        listed(known, ", "));
    }
    target = value;
    return {};
  });
}

void ArgumentParser::environment(std::string_view name, std::string_view variable) {
  Flag* flag = find(name);
  TW_CHECK(flag != nullptr, "no flag --{}", name);
  flag->variable = variable;
}

void ArgumentParser::action(std::initializer_list<std::string_view> words, std::string& target) {
  actions_ = words;
  action_target_ = &target;
}

void ArgumentParser::group(std::string_view title) { group_ = title; }
void ArgumentParser::example(std::string_view line) { examples_.push_back(line); }

ArgumentParser::Flag* ArgumentParser::find(std::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

Status ArgumentParser::parse_flag(std::string_view word, std::span<const std::string>& rest) {
  word.remove_prefix(2);
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  Flag* flag = find(name);
  if (flag == nullptr) {
    std::vector<std::string_view> names;
    for (const Flag& each : flags_) names.push_back(each.name);
    const std::string near = nearest_name(name, names);
    return make_error(ErrorCode::kInvalidArgument, "unknown flag --{}{}", name,
                      near.empty() ? "" : fmt::format("; did you mean --{}?", near));
  }
  if (std::exchange(flag->seen, true)) {
    return make_error(ErrorCode::kInvalidArgument, "--{} is given twice", name);
  }
  if (flag->placeholder.empty()) {
    if (equals == std::string_view::npos) return flag->read("");
    return make_error(ErrorCode::kInvalidArgument, "--{} takes no value", name);
  }
  if (equals != std::string_view::npos) return flag->read(word.substr(equals + 1));
  if (rest.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--{} needs a value: --{} {}", name, name,
                      flag->placeholder);
  }
  const std::string& value = rest.front();
  rest = rest.subspan(1);
  return flag->read(value);
}

Status ArgumentParser::parse_action(std::string_view word) {
  if (action_target_ == nullptr || action_seen_) {
    return make_error(ErrorCode::kInvalidArgument, "unexpected '{}'", word);
  }
  if (std::find(actions_.begin(), actions_.end(), word) == actions_.end()) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' is not one of {}", word,
                      listed(actions_, ", "));
  }
  *action_target_ = word;
  action_seen_ = true;
  return {};
}

Status ArgumentParser::read_environment() {
  for (Flag& flag : flags_) {
    if (flag.seen || flag.variable.empty()) continue;
    const char* value = std::getenv(std::string(flag.variable).c_str());
    if (value == nullptr || *value == '\0') continue;
    const Status status = flag.read(value);
    if (!status.ok()) {
      return make_error(ErrorCode::kInvalidArgument, "{}, from the environment's {}",
                        status.error().message, flag.variable);
    }
  }
  return {};
}

Status ArgumentParser::parse(std::span<const std::string> words) {
  while (!words.empty()) {
    const std::string& word = words.front();
    words = words.subspan(1);
    if (word == "--help" || word == "-h") {
      help_wanted_ = true;
      return {};
    }
    if (word.starts_with("--") && word.size() > 2) {
      TW_TRY(parse_flag(word, words));
    } else {
      TW_TRY(parse_action(word));
    }
  }
  if (action_target_ != nullptr && !action_seen_) {
    return make_error(ErrorCode::kInvalidArgument, "expected one of {}", listed(actions_, ", "));
  }
  return read_environment();
}

std::string ArgumentParser::help() const {
  std::string text = fmt::format("{}\n\nusage: tilewright {} {}\n", summary_, command_, usage_);
  size_t width = 0;
  const auto left_of = [](const Flag& flag) {
    return fmt::format("--{}{}{}", flag.name, flag.placeholder.empty() ? "" : " ",
                       flag.placeholder);
  };
  for (const Flag& flag : flags_) width = std::max(width, left_of(flag).size());
  width = std::min<size_t>(width, 30);
  std::string_view group;
  for (const Flag& flag : flags_) {
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += fmt::format("  {:<{}}  {}\n", left_of(flag), width, flag.help);
  }
  if (!examples_.empty()) text += "\nExamples:\n";
  for (const std::string_view line : examples_) text += fmt::format("  {}\n", line);
  return text;
}

std::optional<int> ArgumentParser::parse_or_finish(std::span<const std::string> words) {
  const Status status = parse(words);
  if (!status.ok()) {
    const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
    const int code = report_error(command_, status.error(), json);
    fmt::print(stderr, "see tilewright {} --help\n", command_);
    return code;
  }
  if (!help_wanted_) return std::nullopt;
  print_text(help());
  return 0;
}

}  // namespace tilewright::cli
