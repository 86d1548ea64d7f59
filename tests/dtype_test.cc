// Every type and every reduction has one name, one size, and is found by its name.

#include "mp/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace mp {
namespace {

using ::testing::ElementsAre;

std::vector<DType> All() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

TEST(DType, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (const DType dtype : All()) {
    names.emplace(DTypeName(dtype));
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kDTypeCount));
  EXPECT_EQ(DTypeName(DType::kBF16), "bf16");
  EXPECT_EQ(DTypeName(DType::kF8E4M3), "f8e4m3");
  EXPECT_EQ(DTypeName(DType::kC128), "c128");
  for (const char* none : {"", "F32", "f32 ", "float", "f3"}) {
    EXPECT_FALSE(DTypeFromName(none).has_value()) << none;
  }
}

TEST(DType, HasTheSizeThatItsNameSays) {
  for (const DType dtype : All()) {
    const std::string name(DTypeName(dtype));
    const int64_t bits = dtype == DType::kBool ? 8
                         : name[0] == 'f' && name[1] == '8'
                             ? 8
                             : std::stoi(name.substr(name.find_first_of("0123456789")));
    EXPECT_EQ(SizeOf(dtype) * 8, bits) << name;
  }
}

TEST(DType, TenCanBeReducedAndFourAreFloats) {
  std::vector<std::string> reducible, floats;
  for (const DType dtype : All()) {
    if (IsReducible(dtype)) reducible.emplace_back(DTypeName(dtype));
    if (IsReducibleFloat(dtype)) floats.emplace_back(DTypeName(dtype));
  }
  EXPECT_THAT(reducible,
              ElementsAre("f32", "f64", "f16", "bf16", "i8", "u8", "i32", "u32", "i64", "u64"));
  EXPECT_THAT(floats, ElementsAre("f32", "f64", "f16", "bf16"));
}

TEST(ReduceOp, HasANameOfItsOwn) {
  std::vector<std::string> names;
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    names.emplace_back(ReduceOpName(op));
    EXPECT_EQ(ReduceOpFromName(ReduceOpName(op)), op);
  }
  EXPECT_THAT(names, ElementsAre("sum", "prod", "min", "max", "avg"));
  EXPECT_FALSE(ReduceOpFromName("mean").has_value());
  EXPECT_FALSE(ReduceOpFromName("").has_value());
}

}  // namespace
}  // namespace mp
