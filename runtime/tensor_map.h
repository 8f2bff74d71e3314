// Tensor maps by the driver: cuTensorMapEncodeTiled.
#pragma once

#include "generator/tensor_map.h"
#include "runtime/driver_table.h"

namespace tilewright {

class DriverTensorMapEncoder final : public TensorMapEncoder {
 public:
  // Keeps a reference.
  explicit DriverTensorMapEncoder(const DriverTable& driver) : driver_(driver) {}
  // Needs no context. kDriverError where the driver refuses the request.
  Result<attention::TensorMap> encode(const TensorMapRequest& request) const override;

 private:
  const DriverTable& driver_;
};

}  // namespace tilewright
