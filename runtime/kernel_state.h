// What a Kernel shares among its copies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/any_config.h"
#include "runtime/cache.h"
#include "runtime/device.h"
#include "tilewright/kernel.h"

namespace tilewright {

struct Kernel::State {
  std::shared_ptr<const Device> device;
  std::shared_ptr<const Module> module;
  std::vector<KernelEntry> entries;
  BinaryPtr binary;
  BinaryOrigin origin = BinaryOrigin::kCompiled;
  Problem problem;
  AnyConfig config;
  std::string provenance;
};

}  // namespace tilewright
