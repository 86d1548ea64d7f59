// The value and the bits of one element of every dtype, worked out by hand.

#include "mp/files/element.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace mp::files {
namespace {

template <typename T>
std::string Text(DType dtype, T bits) {
  return ElementText(dtype, &bits);
}

TEST(ElementText, Floats) {
  EXPECT_EQ(Text(DType::kF32, 0x3f000000U), "0.5 (bits 3f000000)");
  EXPECT_EQ(Text(DType::kF32, 0x80000000U), "-0 (bits 80000000)");
  EXPECT_EQ(Text(DType::kF64, uint64_t{0x3ff8000000000000}), "1.5 (bits 3ff8000000000000)");
  EXPECT_EQ(Text(DType::kF16, uint16_t{0x3c00}), "1 (bits 3c00)");
  EXPECT_EQ(Text(DType::kF16, uint16_t{0xfc00}), "-inf (bits fc00)");
  EXPECT_EQ(Text(DType::kF16, uint16_t{0x0001}), "5.96046448e-08 (bits 0001)");
  EXPECT_EQ(Text(DType::kF16, uint16_t{0x7e00}), "nan (bits 7e00)");
  EXPECT_EQ(Text(DType::kBF16, uint16_t{0x3fc0}), "1.5 (bits 3fc0)");
  EXPECT_EQ(Text(DType::kBF16, uint16_t{0xc2f7}), "-123.5 (bits c2f7)");
}

TEST(ElementText, EightBitFloats) {
  EXPECT_EQ(Text(DType::kF8E4M3, uint8_t{0x38}), "1 (bits 38)");
  EXPECT_EQ(Text(DType::kF8E4M3, uint8_t{0x7e}), "448 (bits 7e)");
  EXPECT_EQ(Text(DType::kF8E4M3, uint8_t{0x7f}), "nan (bits 7f)");
  EXPECT_EQ(Text(DType::kF8E4M3, uint8_t{0x01}), "0.001953125 (bits 01)");
  EXPECT_EQ(Text(DType::kF8E5M2, uint8_t{0x3c}), "1 (bits 3c)");
  EXPECT_EQ(Text(DType::kF8E5M2, uint8_t{0x7b}), "57344 (bits 7b)");
  EXPECT_EQ(Text(DType::kF8E5M2, uint8_t{0x7c}), "inf (bits 7c)");
}

TEST(ElementText, IntegersAndOthers) {
  EXPECT_EQ(Text(DType::kI8, int8_t{-3}), "-3 (bits fd)");
  EXPECT_EQ(Text(DType::kU8, uint8_t{200}), "200 (bits c8)");
  EXPECT_EQ(Text(DType::kBool, uint8_t{1}), "1 (bits 01)");
  EXPECT_EQ(Text(DType::kI16, int16_t{-2}), "-2 (bits fffe)");
  EXPECT_EQ(Text(DType::kU16, uint16_t{65535}), "65535 (bits ffff)");
  EXPECT_EQ(Text(DType::kI32, int32_t{-1}), "-1 (bits ffffffff)");
  EXPECT_EQ(Text(DType::kU32, uint32_t{7}), "7 (bits 00000007)");
  EXPECT_EQ(Text(DType::kI64, int64_t{-9}), "-9 (bits fffffffffffffff7)");
  EXPECT_EQ(Text(DType::kU64, ~uint64_t{0}), "18446744073709551615 (bits ffffffffffffffff)");
  const float complex[] = {1.5F, -2};
  EXPECT_EQ(ElementText(DType::kC64, complex), "(1.5, -2) (bits c00000003fc00000)");
}

}  // namespace
}  // namespace mp::files
