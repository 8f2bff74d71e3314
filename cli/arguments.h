// ArgumentParser: the flags of one subcommand. Our own few lines rather than llvm::cl, whose
// options are process-wide state and whose --help ends the process. Every value is checked where it
// is read: wrong numbers, empty texts and flags given twice are usage errors that name the flag.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/result.h"

namespace tilewright::cli {

class ArgumentParser {
 public:
  // `usage` follows "tilewright <command>": "[flags]".
  ArgumentParser(std::string_view command, std::string_view summary,
                 std::string_view usage = "[flags]");

  // Each adds "--name"; the target keeps its value unless the flag is given. Flags take their value
  // as the next word or after '='. Names and texts must outlive the parser.
  void flag(std::string_view name, std::string_view help, bool& target);
  void text(std::string_view name, std::string_view placeholder, std::string_view help,
            std::string& target);
  void integer(std::string_view name, std::string_view placeholder, std::string_view help,
               int64_t least, int64_t most, int64_t& target);
  void unsigned_integer(std::string_view name, std::string_view placeholder, std::string_view help,
                        std::optional<uint64_t>& target);
  void choice(std::string_view name, std::initializer_list<std::string_view> words,
              std::string_view help, std::string& target);
  // The flag `name`, added before, takes its value from this environment variable if it is not
  // given and the variable is neither unset nor empty. A wrong value is a usage error all the same.
  void environment(std::string_view name, std::string_view variable);
  // One word without dashes, required, of these.
  void action(std::initializer_list<std::string_view> words, std::string& target);
  // Starts a new group of flags in the help.
  void group(std::string_view title);
  void example(std::string_view line);

  // kInvalidArgument names the flag. Stops early, with help_wanted(), at --help or -h.
  Status parse(std::span<const std::string> words);
  bool help_wanted() const { return help_wanted_; }
  std::string help() const;

  // Parses; prints help (exit code 0) or a usage error (2). nullopt: go on.
  std::optional<int> parse_or_finish(std::span<const std::string> words);

  const std::string& command() const { return command_; }

 private:
  struct Flag {
    std::string_view name, placeholder, help;  // placeholder "": takes no value
    std::function<Status(std::string_view value)> read;
    std::string_view group;
    std::string_view variable = {};  // of the environment; "": none
    bool seen = false;
  };
  void add(std::string_view name, std::string_view placeholder, std::string_view help,
           std::function<Status(std::string_view)> read);
  Flag* find(std::string_view name);
  Status parse_flag(std::string_view word, std::span<const std::string>& rest);
  Status parse_action(std::string_view word);
  Status read_environment();

  std::string command_;
  std::string_view summary_, usage_;
  std::vector<Flag> flags_;
  std::vector<std::string_view> actions_;
  std::string* action_target_ = nullptr;
  bool action_seen_ = false;
  std::string_view group_ = "Flags";
  std::vector<std::string_view> examples_;
  std::vector<std::string> placeholders_;  // owns those made of choices
  bool help_wanted_ = false;
};

}  // namespace tilewright::cli
