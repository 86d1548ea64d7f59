// Proves the scalar conversions against the formats' definition (float16_oracle.h): every 16-bit
// pattern to f32 and back; every midpoint between neighbours, where rounding to even decides, and
// the f32 next to it on both sides; the ends of both ranges; a million random f32.  NaN keeps its
// sign, becomes quiet and keeps its upper payload.
#include "mp/base/float16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "tests/host/kernels/float16_oracle.h"

namespace mp::host {
namespace {

// The conversions are usable in constants.
static_assert(F16ToF32(0x3C00) == 1.0f);
static_assert(F32ToF16(65504.0f) == 0x7BFF);
static_assert(BF16ToF32(0xC000) == -2.0f);
static_assert(F32ToBF16(1.0f) == 0x3F80);

struct Conversion {
  const char* name;
  Format16 format;
  float (*to_f32)(uint16_t);
  uint16_t (*from_f32)(float);
};

class Float16Test : public testing::TestWithParam<Conversion> {
 protected:
  // Fails the test unless `value` becomes what the definition says.
  void ExpectRoundsRight(float value) const {
    ASSERT_EQ(GetParam().from_f32(value), Encode16(GetParam().format, value))
        << std::hexfloat << value;
  }
  bool IsNaN(int bits) const {
    return std::isnan(Decode16(GetParam().format, static_cast<uint16_t>(bits)));
  }
};

TEST_P(Float16Test, EveryPatternToF32AndBack) {
  for (int i = 0; i < 0x10000; ++i) {
    if (IsNaN(i)) continue;
    const auto bits = static_cast<uint16_t>(i);
    const float value = GetParam().to_f32(bits);
    const auto expected = static_cast<float>(Decode16(GetParam().format, bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << i;
    ASSERT_EQ(GetParam().from_f32(value), bits);
  }
}

TEST_P(Float16Test, EveryNaNStaysOneWithSignAndUpperPayload) {
  const int quiet = 1 << (GetParam().format.mantissa_bits - 1);
  for (int i = 0; i < 0x10000; ++i) {
    if (!IsNaN(i)) continue;
    const float value = GetParam().to_f32(static_cast<uint16_t>(i));
    ASSERT_TRUE(std::isnan(value)) << i;
    ASSERT_EQ(std::signbit(value), i >= 0x8000) << i;
    ASSERT_EQ(GetParam().from_f32(value), i | quiet) << i;
  }
  // Payloads that have no bit in the upper half.
  for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7F801FFFu, 0xFF80FFFFu}) {
    const uint16_t result = GetParam().from_f32(std::bit_cast<float>(bits));
    EXPECT_TRUE(IsNaN(result)) << bits;
    EXPECT_EQ(result >> 15, bits >> 31);
  }
}

TEST_P(Float16Test, EveryMidpointRoundsToEvenAndItsNeighboursToTheNearest) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 0x8000; ++i) {
    if (IsNaN(i) || IsNaN(i + 1)) continue;
    const double low = Decode16(GetParam().format, static_cast<uint16_t>(i));
    double high = Decode16(GetParam().format, static_cast<uint16_t>(i + 1));
    if (std::isinf(low)) continue;
    // Beyond the largest value lies, for rounding, the next power of two.
    if (std::isinf(high)) high = std::ldexp(1.0, GetParam().format.greatest_exponent + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2) << "a midpoint is an f32";
    const int even = i % 2 == 0 ? i : i + 1;
    ASSERT_EQ(GetParam().from_f32(middle), even) << i;
    ASSERT_EQ(GetParam().from_f32(std::nextafter(middle, 0.0f)), i) << i;
    ASSERT_EQ(GetParam().from_f32(std::nextafter(middle, infinity)), i + 1) << i;
    ASSERT_EQ(GetParam().from_f32(-middle), 0x8000 + even) << i;
    ASSERT_EQ(GetParam().from_f32(std::nextafter(-middle, 0.0f)), 0x8000 + i) << i;
    ASSERT_EQ(GetParam().from_f32(std::nextafter(-middle, -infinity)), 0x8001 + i) << i;
  }
}

TEST_P(Float16Test, EndsOfTheRange) {
  using Limits = std::numeric_limits<float>;
  for (const float value :
       {0.0f, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 65504.0f,
        65519.996f, 65520.0f, 65536.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 0x1p-133f,
        0x1p-134f, 0x1.8p-134f, 0x1.FFp127f, 0x1.FEp127f}) {
    ExpectRoundsRight(value);
    ExpectRoundsRight(-value);
  }
}

TEST_P(Float16Test, RandomF32) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) ExpectRoundsRight(value);
    // Nearly all random exponents lie outside the range of f16.
    ExpectRoundsRight(std::ldexp(static_cast<float>(random()), -60 + static_cast<int>(i % 48)));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float16Test,
                         testing::Values(Conversion{"F16", kFormatF16, F16ToF32, F32ToF16},
                                         Conversion{"BF16", kFormatBF16, BF16ToF32, F32ToBF16}),
                         [](const testing::TestParamInfo<Conversion>& instance) {
                           return instance.param.name;
                         });

}  // namespace
}  // namespace mp::host
