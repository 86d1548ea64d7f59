// Sizes in bytes are exact or refused, up to the last number that there is.

#include "mp/files/tensor_entry.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "mp/base/status.h"

namespace mp::files {
namespace {

TEST(BytesOf, IsTheProduct) {
  EXPECT_EQ(*BytesOf(DType::kF32, {2, 3}), 24);
  EXPECT_EQ(*BytesOf(DType::kC128, {}), 16);
  EXPECT_EQ(*BytesOf(DType::kBool, {7, 0, 5}), 0);
  EXPECT_EQ(*BytesOf(DType::kI8, {INT64_MAX}), INT64_MAX);
  EXPECT_EQ(*BytesOf(DType::kI8, {0, INT64_MAX}), 0);
  EXPECT_EQ((TensorEntry{.dtype = DType::kBF16, .shape = {5}}.size_bytes()), 10);
}

TEST(BytesOf, RefusesWhatDoesNotFit) {
  for (const Shape& shape : {Shape({INT64_MAX}), Shape({1LL << 31, 1LL << 31}), Shape({-1}),
                             Shape({INT64_MAX, 2}), Shape({0, INT64_MAX})}) {
    EXPECT_EQ(KindOf(BytesOf(DType::kF32, shape).status()), ErrorKind::kInvalidArgument)
        << shape.ToString();
  }
}

}  // namespace
}  // namespace mp::files
