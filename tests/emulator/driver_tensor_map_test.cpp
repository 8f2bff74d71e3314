// cuTensorMapEncodeTiled: every rule of cuda.h at its edge, one argument off at a time.
#include <array>
#include <cstring>
#include <functional>

#include "emulator/machine/tensor_map.h"
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

struct Arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  cuuint32_t rank = 3;
  uint64_t address = 0x700000000;
  std::array<cuuint64_t, 6> dims = {200, 100, 7, 1, 1, 1};
  std::array<cuuint64_t, 6> strides = {400, 40000, 0, 0, 0, 0};
  std::array<cuuint32_t, 6> box = {64, 32, 1, 1, 1, 1};
  std::array<cuuint32_t, 6> element_strides = {1, 1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion l2 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

CUresult encode(const Arguments& a, CUtensorMap* map) {
  return TW_CU(cuTensorMapEncodeTiled)(
      map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.dims.data(), a.strides.data(),
      a.box.data(), a.element_strides.data(), a.interleave, a.swizzle, a.l2, a.fill);
}

TEST_F(DriverTest, TensorMapHoldsWhatWasAsked) {
  CUtensorMap opaque;
  Arguments arguments;
  arguments.element_strides[0] = 99;  // ignored without interleave
  arguments.dims[2] = uint64_t{1} << 32;
  ASSERT_EQ(encode(arguments, &opaque), CUDA_SUCCESS) << last_report();
  TensorMap map;
  std::memcpy(static_cast<void*>(&map), &opaque, sizeof(map));
  EXPECT_EQ(map.magic, TensorMap::kMagic);
  EXPECT_EQ(map.global_address, 0x700000000u);
  EXPECT_EQ(map.rank, 3);
  EXPECT_EQ(map.global_dim(0), 200u);
  EXPECT_EQ(map.global_dim(2), uint64_t{1} << 32);
  EXPECT_EQ(map.global_dim(3), 1u);
  EXPECT_EQ(map.global_stride[1], 40000u);
  EXPECT_EQ(map.box_dim[1], 32);
  EXPECT_EQ(map.element_stride[0], 1);
  EXPECT_EQ(map.swizzle, 3);
  ASSERT_EQ(TW_CU(cuTensorMapReplaceAddress)(&opaque, reinterpret_cast<void*>(0x7000f0000)),
            CUDA_SUCCESS);
  std::memcpy(static_cast<void*>(&map), &opaque, sizeof(map));
  EXPECT_EQ(map.global_address, 0x7000f0000u);
  EXPECT_EQ(map.global_stride[1], 40000u);
  CUtensorMap garbage{};
  EXPECT_EQ(TW_CU(cuTensorMapReplaceAddress)(&garbage, reinterpret_cast<void*>(0x7000f0000)),
            CUDA_ERROR_INVALID_VALUE);
}

struct TensorMapRow {
  const char* name;
  bool valid;
  std::function<void(Arguments&)> change;
};

class DriverTensorMap : public DriverTest, public testing::WithParamInterface<TensorMapRow> {};

TEST_P(DriverTensorMap, FollowsTheRule) {
  CUtensorMap map;
  std::memset(static_cast<void*>(&map), 0x5a, sizeof(map));
  Arguments arguments;
  GetParam().change(arguments);
  EXPECT_EQ(encode(arguments, &map), GetParam().valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)
      << last_report();
  if (!GetParam().valid) {
    EXPECT_EQ(map.opaque[0], 0x5a5a5a5a5a5a5a5aull) << "a refused call must write nothing";
    EXPECT_NE(last_report().find("tensor map"), std::string::npos);
  }
}

using A = Arguments;
template <class Enum>
Enum bad(int value) {
  return static_cast<Enum>(value);
}
const TensorMapRow kRows[] = {
    {"Base", true, [](A&) {}},
    {"TypeNegative", false, [](A& a) { a.type = bad<CUtensorMapDataType>(-1); }},
    {"TypeTooLarge", false, [](A& a) { a.type = bad<CUtensorMapDataType>(16); }},
    {"TypeOfSm100", false, [](A& a) { a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }},
    {"RankZero", false, [](A& a) { a.rank = 0; }},
    {"RankOne", true, [](A& a) { a.rank = 1; }},
    {"RankFive", true,
     [](A& a) {
       a.rank = 5;
       a.strides[2] = a.strides[3] = 400000;
     }},
    {"RankSix", false, [](A& a) { a.rank = 6; }},
    {"AddressNull", false, [](A& a) { a.address = 0; }},
    {"AddressOff8", false, [](A& a) { a.address += 8; }},
    {"AddressOff16", true, [](A& a) { a.address += 16; }},
    {"DimZero", false, [](A& a) { a.dims[1] = 0; }},
    {"DimLargest", true, [](A& a) { a.dims[0] = uint64_t{1} << 32; }},
    {"DimTooLarge", false, [](A& a) { a.dims[0] = (uint64_t{1} << 32) + 1; }},
    {"StrideOff8", false, [](A& a) { a.strides[0] = 408; }},
    {"StrideLargest", true, [](A& a) { a.strides[1] = (uint64_t{1} << 40) - 16; }},
    {"StrideTooLarge", false, [](A& a) { a.strides[1] = uint64_t{1} << 40; }},
    {"StridesOverlap", true, [](A& a) { a.strides[1] = 16; }},
    {"StrideBeyondRankIgnored", true, [](A& a) { a.strides[2] = 7; }},
    {"BoxZero", false, [](A& a) { a.box[1] = 0; }},
    {"BoxLargest", true, [](A& a) { a.box[1] = 256; }},
    {"BoxTooLarge", false, [](A& a) { a.box[1] = 257; }},
    {"BoxRowNotOf16", false, [](A& a) { a.box[0] = 4; }},
    {"BoxRowOf16", true, [](A& a) { a.box[0] = 8; }},
    {"BoxRowBeyond128B", false, [](A& a) { a.box[0] = 72; }},
    {"BoxRowBeyond64B", false, [](A& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }},
    {"BoxRowOf64B", true,
     [](A& a) {
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
       a.box[0] = 32;
     }},
    {"BoxRowBeyond32B", false,
     [](A& a) {
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
       a.box[0] = 24;
     }},
    {"NoSwizzleWideRow", true,
     [](A& a) {
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
       a.box[0] = 256;
     }},
    {"ElementStrideZero", false, [](A& a) { a.element_strides[1] = 0; }},
    {"ElementStrideEight", true, [](A& a) { a.element_strides[1] = 8; }},
    {"ElementStrideNine", false, [](A& a) { a.element_strides[1] = 9; }},
    {"InterleaveUnknown", false, [](A& a) { a.interleave = bad<CUtensorMapInterleave>(3); }},
    {"Interleave16", true, [](A& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
    {"InterleaveFirstElementStrideCounts", false,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
       a.element_strides[0] = 9;
     }},
    {"InterleaveRankTwo", false,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
       a.rank = 2;
     }},
    {"Interleave32WrongSwizzle", false,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       a.strides[0] = 416;
     }},
    {"Interleave32", true,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
       a.strides[0] = 416;
     }},
    {"Interleave32StrideOff16", false,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
     }},
    {"Interleave32AddressOff16", false,
     [](A& a) {
       a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
       a.strides[0] = 416;
       a.address += 16;
     }},
    {"SwizzleUnknown", false, [](A& a) { a.swizzle = bad<CUtensorMapSwizzle>(7); }},
    {"SwizzleOfSm100", false, [](A& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; }},
    {"PromotionUnknown", false, [](A& a) { a.l2 = bad<CUtensorMapL2promotion>(4); }},
    {"FillUnknown", false, [](A& a) { a.fill = bad<CUtensorMapFloatOOBfill>(2); }},
    {"FillNan", true, [](A& a) { a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }},
    {"FillNanOfInteger", false,
     [](A& a) {
       a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
       a.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, DriverTensorMap, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(DriverTest, TensorMapMustBeAligned) {
  alignas(128) std::array<std::byte, 256> bytes{};
  auto* off = reinterpret_cast<CUtensorMap*>(bytes.data() + 32);
  EXPECT_EQ(encode({}, off), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode({}, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode({}, reinterpret_cast<CUtensorMap*>(bytes.data() + 64)), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tilewright::emulator
