// What every subcommand prints with: errors and their exit codes, aligned tables, JSON, colour on a
// terminal only, and a progress line for anything that takes over two seconds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "tilewright/result.h"

namespace tilewright::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;      // a check or run failed
inline constexpr int kBadUsage = 2;     // the command line, or a file it names, is wrong
inline constexpr int kUnsupported = 3;  // well-formed, but no kernel takes it; reasons are given

int exit_code(ErrorCode code);

// Prints "tilewright <command>: message" and the reasons to stderr, with `json` also an object
// {"error": …} to stdout. Returns the exit code.
int report_error(std::string_view command, const Error& error, bool json);

// To stdout. Failures of stdout (a full disk) are noticed by finish_output().
void print_text(std::string_view text);
void print_json(const Json& json);
// Flushes stdout; false if anything could not be written.
bool finish_output();

// Columns separated by two spaces; all but the last are padded.
class Table {
 public:
  void row(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

enum class Colour { kGreen, kYellow, kRed, kDim };
// The text in colour if stdout is a terminal, else as it is.
std::string coloured(std::string_view text, Colour colour);

// From two seconds after its making to its end, a line on stderr that says what is going on and for
// how long; nothing where stderr is no terminal.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void set_label(std::string label);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright::cli
