#include "tests/emulator/machine_support.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilewright::emulator::test {
namespace {

std::string whole_text(std::string_view target, std::string_view body) {
  return ".version 8.0\n.target " + std::string(target) + "\n.address_size 64\n" +
         std::string(body);
}

}  // namespace

Machine::Machine(std::string_view target) : target_(target) {
  auto arch = arch_from_target(target);
  EXPECT_TRUE(arch.ok());
  arch_ = *arch;
  auto memory = DeviceMemory::create(int64_t{1} << 30);
  EXPECT_TRUE(memory.ok());
  memory_ = *std::move(memory);
}

Result<std::unique_ptr<LoadedModule>> Machine::try_load(std::string_view body) {
  return LoadedModule::load(whole_text(target_, body), {.file_name = "test.ptx", .arch = arch_},
                            *memory_);
}

const LoadedModule* Machine::load(std::string_view body) {
  auto loaded = try_load(body);
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.error().to_string();
    return nullptr;
  }
  modules_.push_back(*std::move(loaded));
  return modules_.back().get();
}

DeviceAddress Machine::allocate(size_t bytes) {
  auto address = memory_->allocate(bytes);
  EXPECT_TRUE(address.ok());
  return address.ok() ? *address : 0;
}

void Machine::write(DeviceAddress to, const void* from, size_t bytes) {
  const Status status = memory_->copy_in(to, from, bytes);
  EXPECT_TRUE(status.ok());
}

void Machine::read(DeviceAddress from, void* to, size_t bytes) {
  const Status status = memory_->copy_out(to, from, bytes);
  EXPECT_TRUE(status.ok());
}

LaunchOutcome Machine::run(std::string_view name, Dim3 grid, Dim3 block, const Arguments& arguments,
                           const LaunchSettings& settings, uint32_t dynamic_shared_bytes,
                           Dim3 cluster) {
  if (modules_.empty()) return {};
  LaunchRequest request;
  request.module = modules_.back().get();
  request.kernel = request.module->find_kernel(name);
  if (request.kernel < 0) {
    ADD_FAILURE() << "no kernel " << name;
    return {};
  }
  request.grid = grid;
  request.block = block;
  request.cluster = cluster;
  request.dynamic_shared_bytes = dynamic_shared_bytes;
  request.parameters = arguments.bytes();
  request.settings = settings;
  const Status status = check_launch(request, arch_);
  if (!status.ok()) {
    ADD_FAILURE() << status.error().to_string();
    return {};
  }
  return run_launch(request, arch_, *memory_);
}

std::string describe(const LaunchOutcome& outcome) {
  return outcome.fault ? outcome.fault->to_string() : "no fault";
}

uint32_t line_of(std::string_view body, std::string_view text) {
  const size_t at = body.find(text);
  EXPECT_NE(at, std::string_view::npos) << text;
  const auto before = body.substr(0, std::min(at, body.size()));
  return 4 + static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n'));
}

}  // namespace tilewright::emulator::test
