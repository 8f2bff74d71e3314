// cuTensorMapEncodeTiled: checks its arguments by cuda.h's rules and writes the emulator's own
// content (emulator/machine/tensor_map.h) into the opaque 128 bytes.
#include <cstring>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"
#include "emulator/machine/tensor_map.h"

namespace tilewright::emulator::driver {
namespace {

static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));

struct TiledArguments {
  CUtensorMapDataType type;
  uint32_t rank;
  uint64_t address;
  const cuuint64_t* dims;
  const cuuint64_t* strides;
  const cuuint32_t* box;
  const cuuint32_t* element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion l2_promotion;
  CUtensorMapFloatOOBfill fill;
};

template <class... Args>
CUresult invalid(fmt::format_string<Args...> format, Args&&... args) {
  return refuse(CUDA_ERROR_INVALID_VALUE, "tensor map: {}",
                fmt::format(format, std::forward<Args>(args)...));
}

bool is_float(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

CUresult check_enums(const TiledArguments& a) {
  if (a.type < CU_TENSOR_MAP_DATA_TYPE_UINT8 || a.type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) {
    return invalid("no data type {}", static_cast<int>(a.type));
  }
  if (a.type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ) {
    return invalid("data type {} needs sm_100", static_cast<int>(a.type));
  }
  if (a.rank < 1 || a.rank > 5) return invalid("rank {} is outside 1..5", a.rank);
  if (a.interleave < CU_TENSOR_MAP_INTERLEAVE_NONE || a.interleave > CU_TENSOR_MAP_INTERLEAVE_32B) {
    return invalid("no interleave {}", static_cast<int>(a.interleave));
  }
  if (a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && a.rank < 3) {
    return invalid("rank {} with interleave, which needs at least 3", a.rank);
  }
  if (a.swizzle < CU_TENSOR_MAP_SWIZZLE_NONE || a.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) {
    return invalid("no swizzle {}", static_cast<int>(a.swizzle));
  }
  if (a.swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
    return invalid("swizzle {} needs sm_100", static_cast<int>(a.swizzle));
  }
  if (a.interleave == CU_TENSOR_MAP_INTERLEAVE_32B && a.swizzle != CU_TENSOR_MAP_SWIZZLE_32B) {
    return invalid("interleave 32B needs swizzle 32B");
  }
  if (a.l2_promotion < CU_TENSOR_MAP_L2_PROMOTION_NONE ||
      a.l2_promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
    return invalid("no L2 promotion {}", static_cast<int>(a.l2_promotion));
  }
  if (a.fill < CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      a.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) {
    return invalid("no fill {}", static_cast<int>(a.fill));
  }
  if (a.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(a.type)) {
    return invalid("NaN fill of data type {}, which is no float", static_cast<int>(a.type));
  }
  return CUDA_SUCCESS;
}

CUresult check_global(const TiledArguments& a) {
  const uint64_t alignment = a.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  if (a.address == 0 || a.address % alignment != 0) {
    return invalid("address {:#x} is null or not a multiple of {}", a.address, alignment);
  }
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (a.dims[i] < 1 || a.dims[i] > uint64_t{1} << 32) {
      return invalid("globalDim[{}] = {} is outside 1..2^32", i, a.dims[i]);
    }
  }
  for (uint32_t i = 0; i + 1 < a.rank; ++i) {
    if (a.strides[i] % alignment != 0 || a.strides[i] >= uint64_t{1} << 40) {
      return invalid("globalStrides[{}] = {} is no multiple of {} below 2^40", i, a.strides[i],
                     alignment);
    }
  }
  return CUDA_SUCCESS;
}

CUresult check_box(const TiledArguments& a) {
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (a.box[i] < 1 || a.box[i] > 256) {
      return invalid("boxDim[{}] = {} is outside 1..256", i, a.box[i]);
    }
    const bool ignored = i == 0 && a.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    if (!ignored && (a.element_strides[i] < 1 || a.element_strides[i] > 8)) {
      return invalid("elementStrides[{}] = {} is outside 1..8", i, a.element_strides[i]);
    }
  }
  if (a.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return CUDA_SUCCESS;
  const uint32_t inner = a.box[0] * static_cast<uint32_t>(tensor_map_element_bytes(a.type));
  if (inner % 16 != 0) return invalid("a box row of {} bytes is no multiple of 16", inner);
  if (a.swizzle != CU_TENSOR_MAP_SWIZZLE_NONE) {
    const uint32_t span = 16u << a.swizzle;  // 32, 64, 128
    if (inner > span)
      return invalid("a box row of {} bytes is beyond the swizzle's {}", inner, span);
  }
  return CUDA_SUCCESS;
}

TensorMap encode(const TiledArguments& a) {
  TensorMap map;
  map.global_address = a.address;
  map.data_type = static_cast<uint8_t>(a.type);
  map.rank = static_cast<uint8_t>(a.rank);
  map.interleave = static_cast<uint8_t>(a.interleave);
  map.swizzle = static_cast<uint8_t>(a.swizzle);
  map.l2_promotion = static_cast<uint8_t>(a.l2_promotion);
  map.fill = static_cast<uint8_t>(a.fill);
  for (uint32_t i = 0; i < a.rank; ++i) {
    map.global_dim_minus_one[i] = static_cast<uint32_t>(a.dims[i] - 1);
    map.box_dim[i] = static_cast<uint16_t>(a.box[i]);
    const bool ignored = i == 0 && a.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    map.element_stride[i] = ignored ? 1 : static_cast<uint8_t>(a.element_strides[i]);
    if (i + 1 < a.rank) map.global_stride[i] = a.strides[i];
  }
  return map;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill fill) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr || reinterpret_cast<uintptr_t>(out) % 64 != 0) {
    return invalid("the map at {} is null or not 64-byte aligned", static_cast<void*>(out));
  }
  if (dims == nullptr || box == nullptr || element_strides == nullptr ||
      (strides == nullptr && rank != 1)) {
    return invalid("a null array");
  }
  const TiledArguments arguments{type,
                                 rank,
                                 reinterpret_cast<uint64_t>(address),
                                 dims,
                                 strides,
                                 box,
                                 element_strides,
                                 interleave,
                                 swizzle,
                                 l2_promotion,
                                 fill};
  TW_DRIVER_TRY(check_enums(arguments));
  TW_DRIVER_TRY(check_global(arguments));
  TW_DRIVER_TRY(check_box(arguments));
  const TensorMap map = encode(arguments);
  std::memcpy(out, &map, sizeof(map));
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* out, void* address) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr || reinterpret_cast<uintptr_t>(out) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  std::memcpy(static_cast<void*>(&map), out, sizeof(map));
  if (map.magic != TensorMap::kMagic) return invalid("not a tensor map of this driver");
  const uint64_t alignment = map.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  const auto value = reinterpret_cast<uint64_t>(address);
  if (value == 0 || value % alignment != 0) {
    return invalid("address {:#x} is null or not a multiple of {}", value, alignment);
  }
  map.global_address = value;
  std::memcpy(out, &map, sizeof(map));
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
