#include "cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "core/check.h"

namespace tilewright::cli {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kParseError:
    case ErrorCode::kNotFound:
    case ErrorCode::kOverflow:
      return kBadUsage;
    case ErrorCode::kUnsupportedProblem:
      return kUnsupported;
    default:
      return kFailure;
  }
}

int report_error(std::string_view command, const Error& error, bool json) {
  fmt::print(stderr, "tilewright {}: {}\n", command, error.to_string());
  if (json) {
    Json reasons = Json::array();
    for (const std::string& reason : error.reasons) reasons.push(reason);
    print_json(Json::object({{"error", Json::object({{"code", to_string(error.code)},
                                                     {"message", error.message},
                                                     {"reasons", std::move(reasons)}})}}));
  }
  return exit_code(error.code);
}

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) { print_text(json.dump(/*indent=*/true) + "\n"); }

bool finish_output() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()), 0);
    for (size_t i = 0; i + 1 < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : rows_) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const size_t width = i + 1 < cells.size() ? widths[i] + 2 : 0;
      text += fmt::format("{:<{}}", cells[i], width);
    }
    text += '\n';
  }
  return text;
}

std::string coloured(std::string_view text, Colour colour) {
  if (::isatty(STDOUT_FILENO) == 0) return std::string(text);
  const int code = colour == Colour::kGreen    ? 32
                   : colour == Colour::kYellow ? 33
                   : colour == Colour::kRed    ? 31
                                               : 2;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

struct Progress::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  std::string label;
  bool over = false;
  std::thread thread;

  void show() {
    using Clock = std::chrono::steady_clock;
    constexpr auto kDelay = std::chrono::seconds(2);
    constexpr auto kPeriod = std::chrono::milliseconds(200);
    const Clock::time_point start = Clock::now();
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, kDelay, [this] { return over; })) return;
    do {
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      fmt::print(stderr, "\r\x1b[K{} ({:.0f} s)", label, seconds);
      std::fflush(stderr);
    } while (!changed.wait_for(lock, kPeriod, [this] { return over; }));
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
};

Progress::Progress(std::string label) {
  if (::isatty(STDERR_FILENO) == 0) return;
  impl_ = std::make_unique<Impl>();
  impl_->label = std::move(label);
  impl_->thread = std::thread([impl = impl_.get()] { impl->show(); });
}

Progress::~Progress() {
  if (impl_ == nullptr) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->over = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

void Progress::set_label(std::string label) {
  if (impl_ == nullptr) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->label = std::move(label);
}

}  // namespace tilewright::cli
