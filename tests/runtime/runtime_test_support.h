// Shared by the tests of runtime/: folders that vanish, requests made by hand, and a compiler that
// counts instead of compiling.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "runtime/compile.h"
#include "tilewright/session.h"

namespace tilewright::testing {

// A private folder, removed at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "tilewright-XXXXXX";
    const char* made = mkdtemp(pattern.data());
    TW_CHECK(made != nullptr, "mkdtemp {}", pattern);
    path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::vector<std::string> files_with_ending(const std::string& folder,
                                                  const std::string& ending) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) found.push_back(entry.path().string());
  }
  return found;
}

// A small kernel: p[i] = f(p[i]), with f in a header of its own.
inline CompileRequest small_request(const std::string& target = "sm_80") {
  CompileRequest request;
  request.source = {.family = "test",
                    .template_path = "attention/test.cuh",
                    .entry_names = {"tw_test"},
                    .text =
                        "// a test kernel\n"
                        "#include \"attention/test.cuh\"\n"
                        "extern \"C\" __global__ void tw_test(float* p) {\n"
                        "  p[threadIdx.x] = f(p[threadIdx.x]);\n"
                        "}\n"};
  request.target = target;
  request.options = {"--gpu-architecture=" + target, "--std=c++20",
                     "--device-as-default-execution-space", "--generate-line-info",
                     "--ptxas-options=-v"};
  request.headers = {{"attention/test.cuh", "inline float f(float x) { return 2 * x + 1; }\n"}};
  return request;
}

// Gives code that depends on the request, after `delay`.
class CountingCompiler final : public Compiler {
 public:
  explicit CountingCompiler(std::string identity = "test compiler",
                            std::chrono::milliseconds delay = {})
      : identity_(std::move(identity)), delay_(delay) {}

  const std::string& identity() const override { return identity_; }
  bool loaded() const override { return compiles > 0; }
  Result<CompiledCode> compile(const CompileRequest& request) override {
    ++compiles;
    std::this_thread::sleep_for(delay_);
    if (fail) return Error{ErrorCode::kCompileError, "asked to fail", {}};
    CompiledCode code;
    code.ptx = "ptx of " + request.source.text;
    code.cubin = std::string(
                     "\x7f"
                     "ELF\0\1",
                     6) +
                 request.source.text;
    code.log = "log";
    for (size_t i = 0; i < request.source.entry_names.size(); ++i) {
      code.resources.push_back({.registers = 42 + static_cast<int>(i), .spill_load_bytes = 8});
    }
    code.compiler_version = "test 1.0";
    code.seconds = 0.25;
    return code;
  }

  std::atomic<int> compiles{0};
  std::atomic<bool> fail{false};

 private:
  std::string identity_;
  std::chrono::milliseconds delay_;
};

// Keeps what is logged.
class LogKeeper {
 public:
  std::function<void(LogLevel, const std::string&)> function() {
    return [this](LogLevel level, const std::string& message) {
      const std::lock_guard lock(mutex_);
      messages_.emplace_back(level, message);
    };
  }
  std::vector<std::string> at(LogLevel level) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const auto& [each, message] : messages_) {
      if (each == level) found.push_back(message);
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> messages_;
};

// Runs `body` in a child process and returns its exit status; -1 if it died of a signal. The body
// returns an exit status and uses no gtest assertion.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tilewright::testing
