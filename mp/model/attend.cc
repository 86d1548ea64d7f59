#include "mp/model/attend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// Arrays of vectors need a size that is known: where these are the best there is, a target below
// them runs.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/model/attend.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"

#ifndef MP_MODEL_ATTEND_CONSTANTS_
#define MP_MODEL_ATTEND_CONSTANTS_
namespace mp::model {
namespace {

// Rows and columns are padded to whole vectors of any target.
constexpr int64_t kWidest = 16;
// Queries at once: with two vectors of keys each, as many sums as registers hold.
constexpr int64_t kRows = 6;

int64_t Padded(int64_t count) { return (count + kWidest - 1) / kWidest * kWidest; }

}  // namespace
}  // namespace mp::model
#endif

HWY_BEFORE_NAMESPACE();
namespace mp::model::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kWidest>;
using Vector = hn::Vec<Floats>;
constexpr Floats kTag;

// kR rows and kC vectors of out = a [kR, inner] times b [inner, ..].
template <int kR, int kC>
HWY_INLINE void Tile(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch,
                     int64_t inner, float* out, int64_t out_pitch) {
  constexpr auto kLanes = static_cast<int64_t>(HWY_MIN(HWY_LANES(float), kWidest));
  Vector sums[kR][kC];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) sums[r][c] = hn::Zero(kTag);
  }
  for (int64_t i = 0; i < inner; ++i, b += b_pitch) {
    Vector terms[kC];
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) terms[c] = hn::LoadU(kTag, b + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const Vector factor = hn::Set(kTag, a[r * a_pitch + i]);
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) sums[r][c] = hn::MulAdd(factor, terms[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) hn::StoreU(sums[r][c], kTag, out + r * out_pitch + c * kLanes);
  }
}

// `cols` is whole vectors.
template <int kR>
HWY_INLINE void Product(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch,
                        int64_t inner, int64_t cols, float* out, int64_t out_pitch) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kTag));
  int64_t j = 0;
  for (; j + 2 * lanes <= cols; j += 2 * lanes) {
    Tile<kR, 2>(a, a_pitch, b + j, b_pitch, inner, out + j, out_pitch);
  }
  for (; j < cols; j += lanes) {
    Tile<kR, 1>(a, a_pitch, b + j, b_pitch, inner, out + j, out_pitch);
  }
}

// The first `length` of a row = exp((x - max) * scale), the rest of `padded` = 0; 1 / their sum.
HWY_INLINE float Exponentials(float* row, int64_t length, int64_t padded, float scale) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kTag));
  std::fill(row + length, row + padded, -std::numeric_limits<float>::infinity());
  Vector most = hn::LoadU(kTag, row);
  for (int64_t j = lanes; j < padded; j += lanes) most = hn::Max(most, hn::LoadU(kTag, row + j));
  most = hn::MaxOfLanes(kTag, most);
  const Vector factor = hn::Set(kTag, scale);
  Vector sum = hn::Zero(kTag);
  for (int64_t j = 0; j < padded; j += lanes) {
    const Vector x = hn::Mul(hn::Sub(hn::LoadU(kTag, row + j), most), factor);
    const Vector e = hn::Exp(kTag, x);
    hn::StoreU(e, kTag, row + j);
    sum = hn::Add(sum, e);
  }
  return 1.0f / hn::GetLane(hn::SumOfLanes(kTag, sum));
}

HWY_INLINE void StoreScaled(const float* row, float scale, int64_t count, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kTag));
  int64_t d = 0;
  for (; d + lanes <= count; d += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(kTag, row + d), hn::Set(kTag, scale)), kTag, out + d);
  }
  for (; d < count; ++d) out[d] = row[d] * scale;
}

// What all queries of a head share.
struct Shared {
  int64_t length, size, keys, columns;  // the last two are length and size, padded
  const float* key;                     // [size, keys]: transposed
  const float* value;                   // [length, columns]
  float* scores;                        // [kRows, keys]
  float* sums;                          // [kRows, columns]
};

template <int kR>
HWY_NOINLINE void Queries(const float* query, int64_t pitch, const Shared& shared, float* out,
                          int64_t out_pitch) {
  const Shared& s = shared;
  Product<kR>(query, pitch, s.key, s.keys, s.size, s.keys, s.scores, s.keys);
  float scales[kR];
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.size));
  for (int r = 0; r < kR; ++r) {
    scales[r] = Exponentials(s.scores + r * s.keys, s.length, s.keys, scale);
  }
  Product<kR>(s.scores, s.keys, s.value, s.columns, s.length, s.columns, s.sums, s.columns);
  for (int r = 0; r < kR; ++r) {
    const float* const row = s.sums + r * s.columns;
    StoreScaled(row, scales[r], s.size, out + r * out_pitch);
  }
}

void Attend(const OneHead& head, float* out, int64_t out_pitch, float* scratch) {
  const int64_t keys = Padded(head.length), columns = Padded(head.size);
  float* const key = scratch;
  float* const value = key + head.size * keys;
  float* const scores = value + head.length * columns;
  for (int64_t j = 0; j < head.length; ++j) {
    const float* const row = head.key + j * head.pitch;
    for (int64_t d = 0; d < head.size; ++d) key[d * keys + j] = row[d];
    std::memcpy(value + j * columns, head.value + j * head.pitch,
                static_cast<size_t>(head.size) * sizeof(float));
    std::fill(value + j * columns + head.size, value + (j + 1) * columns, 0.0f);
  }
  for (int64_t d = 0; d < head.size; ++d) {
    std::fill(key + d * keys + head.length, key + (d + 1) * keys, 0.0f);
  }
  const Shared shared{head.length, head.size, keys,   columns,
                      key,         value,     scores, scores + kRows * keys};
  for (int64_t i = 0; i < head.length; i += kRows) {
    const float* const query = head.query + i * head.pitch;
    float* const rows = out + i * out_pitch;
    switch (std::min(head.length - i, kRows)) {
      case 1:
        Queries<1>(query, head.pitch, shared, rows, out_pitch);
        break;
      case 2:
        Queries<2>(query, head.pitch, shared, rows, out_pitch);
        break;
      case 3:
        Queries<3>(query, head.pitch, shared, rows, out_pitch);
        break;
      case 4:
        Queries<4>(query, head.pitch, shared, rows, out_pitch);
        break;
      case 5:
        Queries<5>(query, head.pitch, shared, rows, out_pitch);
        break;
      default:
        Queries<kRows>(query, head.pitch, shared, rows, out_pitch);
    }
  }
}

}  // namespace mp::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::model {

HWY_EXPORT(Attend);

int64_t AttendScratch(int64_t longest, int64_t size) {
  return size * Padded(longest) + longest * Padded(size) + kRows * (Padded(longest) + Padded(size));
}

void Attend(const OneHead& head, float* out, int64_t out_pitch, float* scratch) {
  HWY_DYNAMIC_DISPATCH(Attend)(head, out, out_pitch, scratch);
}

}  // namespace mp::model
#endif  // HWY_ONCE
