// OncePerKey: a map that makes each value at most once, however many threads ask for it at the same
// time; threads that want other keys do not wait. A failure is not kept: the next caller tries
// again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tilewright/result.h"

namespace tilewright {

template <class Value>
class OncePerKey {
 public:
  // The kept value, or what `make()` gives (a Result<Value>). `*found` says which.
  template <class Make>
  Result<Value> get(const std::string& key, bool* found, const Make& make) {
    std::shared_ptr<Slot> slot;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<Slot>& entry = slots_[key];
      if (entry == nullptr) entry = std::make_shared<Slot>();
      slot = entry;
    }
    const std::lock_guard lock(slot->mutex);
    *found = slot->value.has_value();
    if (!*found) {
      Result<Value> made = make();
      if (!made.ok()) return made;
      slot->value = *std::move(made);
    }
    return *slot->value;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::optional<Value> value;
  };
  std::mutex mutex_;  // of slots_
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

}  // namespace tilewright
