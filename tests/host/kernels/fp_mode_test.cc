// Proves that the scope gives the standard mode under every single deviation from it and all
// together, that the caller's register is bit for bit what it was afterwards, and that folds of
// denormals are exact in the scope while they are not without it.
#include "mp/host/kernels/fp_mode.h"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "mp/dtype.h"
#include "mp/host/kernels/fold.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mp::host {
namespace {

float SumOf(float a, float b) {
  const void* in[] = {&a, &b};
  float result = 0;
  void* out[] = {&result};
  FoldFor(DType::kF32, ReduceOp::kSum)(in, 2, out, 1, 0, 1, {});
  return result;
}

TEST(ScopedStandardFpModeTest, RoundsToNearest) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const float upward = SumOf(1, 0x1p-30f);
  float nearest = 0;
  {
    ScopedStandardFpMode standard;
    nearest = SumOf(1, 0x1p-30f);
  }
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode, FE_UPWARD);
  EXPECT_GT(upward, 1) << "the test would see no difference";
  EXPECT_EQ(nearest, 1);
}

#if defined(__x86_64__)

constexpr unsigned kStandard = 0x1F80;
constexpr unsigned kFlags = 0x003F;
constexpr unsigned kDenormalsAreZero = 0x0040;
constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kRoundingMode = 0x6000;

TEST(ScopedStandardFpModeTest, EveryDeviationIsUndoneAndRestored) {
  const unsigned before = _mm_getcsr();
  // Unmasked exceptions among them: nothing in between computes.
  for (const unsigned deviation :
       {0u, kDenormalsAreZero, kFlushToZero, 0x2000u, 0x4000u, kRoundingMode, 0x0080u, 0x0100u,
        0x0200u, 0x0400u, 0x0800u, 0x1000u,
        kDenormalsAreZero | kFlushToZero | kRoundingMode | 0x1F80u}) {
    const unsigned mode = kStandard ^ deviation;
    _mm_setcsr(mode);
    unsigned inside = 0;
    {
      ScopedStandardFpMode standard;
      inside = _mm_getcsr();
    }
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(inside & ~kFlags, kStandard) << std::hex << deviation;
    EXPECT_EQ(after, mode) << std::hex << deviation;
  }
}

TEST(ScopedStandardFpModeTest, Nests) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kStandard | kFlushToZero);
  unsigned inner = 0;
  unsigned outer = 0;
  {
    ScopedStandardFpMode first;
    { ScopedStandardFpMode second; }
    inner = _mm_getcsr();
  }
  outer = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(inner & ~kFlags, kStandard);
  EXPECT_EQ(outer, kStandard | kFlushToZero);
}

TEST(ScopedStandardFpModeTest, FoldsKeepDenormals) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kStandard | kFlushToZero | kDenormalsAreZero);
  const float flushed = SumOf(tiny, tiny);
  float kept = 0;
  {
    ScopedStandardFpMode standard;
    kept = SumOf(tiny, tiny);
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & ~kFlags, kStandard | kFlushToZero | kDenormalsAreZero);
  EXPECT_EQ(flushed, 0) << "the test would see no difference";
  EXPECT_EQ(kept, 2 * tiny);
}

#endif  // __x86_64__

}  // namespace
}  // namespace mp::host
