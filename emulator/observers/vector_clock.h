// VectorClock: what a set of lanes knows of everybody's past. One component for each kind of event
// of each party; a component's value says that all lanes' events with a clock up to it have
// happened before. Where only some lanes of a warp are known further, they stand beside it.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright::emulator {

class VectorClock {
 public:
  uint32_t value(uint32_t component) const {
    return component < values_.size() ? values_[component] : 0;
  }
  // Whether events of `lanes` with clock `clock` are known, of every one of the lanes.
  bool covers(uint32_t component, uint32_t lanes, uint32_t clock) const {
    return value(component) >= clock || covers_some(component, lanes, clock);
  }
  // All lanes are known up to `clock`.
  void raise(uint32_t component, uint32_t clock);
  void raise_lanes(uint32_t component, uint32_t lanes, uint32_t clock);
  void join(const VectorClock& other);
  // Knows at least what `other` knows.
  bool dominates(const VectorClock& other) const;
  bool is_empty() const { return values_.empty() && some_.empty(); }
  void clear();

 private:
  struct Some {
    uint32_t component;
    uint32_t lanes;
    uint32_t clock;
  };
  bool covers_some(uint32_t component, uint32_t lanes, uint32_t clock) const;
  void drop_covered();

  std::vector<uint32_t> values_;
  std::vector<Some> some_;  // lanes known beyond the component's value; disjoint per component
};

}  // namespace tilewright::emulator
