// The live objects of one kind, by handle. Handles are numbers that are never used twice and never
// dereferenced, so a null, stale, foreign or made-up handle is just not found.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tilewright::emulator::driver {

// A fresh handle value: unique in the process, outside the addresses a program can own.
uintptr_t next_handle_value();

template <class Handle, class Object>
class Registry {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const Handle handle = reinterpret_cast<Handle>(next_handle_value());
    add_as(handle, std::move(object));
    return handle;
  }
  void add_as(Handle handle, std::shared_ptr<Object> object) {
    object->handle = handle;
    const std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
  }
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  // The object taken out, or null.
  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  // Takes out all that satisfy the predicate; they are destroyed when the result is.
  template <class Predicate>
  std::vector<std::shared_ptr<Object>> remove_if(Predicate&& predicate) {
    std::vector<std::shared_ptr<Object>> removed;
    const std::lock_guard lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (predicate(*it->second)) {
        removed.push_back(std::move(it->second));
        it = objects_.erase(it);
      } else {
        ++it;
      }
    }
    return removed;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace tilewright::emulator::driver
