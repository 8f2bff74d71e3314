#include "emulator/observers/vector_clock.h"

#include <algorithm>

namespace tilewright::emulator {

bool VectorClock::covers_some(uint32_t component, uint32_t lanes, uint32_t clock) const {
  for (const Some& some : some_) {
    if (some.component == component && some.clock >= clock) lanes &= ~some.lanes;
  }
  return lanes == 0;
}

void VectorClock::raise(uint32_t component, uint32_t clock) {
  if (component >= values_.size()) values_.resize(component + 1);
  if (values_[component] >= clock) return;
  values_[component] = clock;
  if (!some_.empty()) drop_covered();
}

void VectorClock::raise_lanes(uint32_t component, uint32_t lanes, uint32_t clock) {
  if (lanes == 0 || value(component) >= clock) return;
  for (Some& some : some_) {
    if (some.component != component) continue;
    if (some.clock >= clock) {
      lanes &= ~some.lanes;
    } else {
      some.lanes &= ~lanes;
    }
  }
  std::erase_if(some_, [](const Some& some) { return some.lanes == 0; });
  for (Some& some : some_) {
    if (some.component != component || some.clock != clock) continue;
    some.lanes |= lanes;
    return;
  }
  if (lanes != 0) some_.push_back({component, lanes, clock});
}

void VectorClock::join(const VectorClock& other) {
  if (other.values_.size() > values_.size()) values_.resize(other.values_.size());
  for (size_t i = 0; i < other.values_.size(); ++i) {
    values_[i] = std::max(values_[i], other.values_[i]);
  }
  if (!some_.empty()) drop_covered();
  for (const Some& some : other.some_) raise_lanes(some.component, some.lanes, some.clock);
}

bool VectorClock::dominates(const VectorClock& other) const {
  for (uint32_t i = 0; i < other.values_.size(); ++i) {
    if (value(i) < other.values_[i]) return false;
  }
  return std::all_of(other.some_.begin(), other.some_.end(), [&](const Some& some) {
    return covers(some.component, some.lanes, some.clock);
  });
}

void VectorClock::clear() {
  values_.clear();
  some_.clear();
}

void VectorClock::drop_covered() {
  std::erase_if(some_, [&](const Some& some) { return some.clock <= value(some.component); });
}

}  // namespace tilewright::emulator
