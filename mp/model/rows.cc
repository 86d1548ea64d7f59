#include "mp/model/rows.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/model/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mp::model::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

// Calls body(tag, i) for all elements: whole vectors, then one by one.
template <class Body>
HWY_INLINE void ForEach(int64_t count, const Body& body) {
  const Whole whole;
  const auto lanes = static_cast<int64_t>(hn::Lanes(whole));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(whole, i);
  for (; i < count; ++i) body(Single(), i);
}

// The sum of value(tag, i) over all elements.
template <class Value>
HWY_INLINE float Sum(int64_t count, const Value& value) {
  const Whole whole;
  const auto lanes = static_cast<int64_t>(hn::Lanes(whole));
  auto sum = hn::Zero(whole);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::Add(sum, value(whole, i));
  float total = hn::GetLane(hn::SumOfLanes(whole, sum));
  for (; i < count; ++i) total += hn::GetLane(value(Single(), i));
  return total;
}

void AddThree(float* out, const float* a, const float* b, const float* c, int64_t cols) {
  ForEach(cols, [=](auto d, int64_t i) HWY_ATTR {
    const auto sum =
        hn::Add(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), hn::LoadU(d, c + i));
    hn::StoreU(sum, d, out + i);
  });
}

template <class Function>
HWY_INLINE void MapBiased(float* x, const float* bias, int64_t rows, int64_t cols,
                          const Function& function) {
  for (int64_t row = 0; row < rows; ++row, x += cols) {
    ForEach(cols, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(function(d, hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, bias + i))), d, x + i);
    });
  }
}

void AddBias(float* x, const float* bias, int64_t rows, int64_t cols) {
  MapBiased(x, bias, rows, cols, [](auto, auto v) HWY_ATTR { return v; });
}

void AddBiasRelu(float* x, const float* bias, int64_t rows, int64_t cols) {
  MapBiased(x, bias, rows, cols, [](auto d, auto v) HWY_ATTR { return hn::Max(v, hn::Zero(d)); });
}

// For z = |x| / sqrt 2 and t = 1 / (1 + p z): 1 - erf(z) = (a1 t + ... + a5 t^5) exp(-z^2).
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  const auto z = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f));
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.3275911f), one));
  auto tail = hn::Set(d, 1.061405429f);
  tail = hn::MulAdd(tail, t, hn::Set(d, -1.453152027f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 1.421413741f));
  tail = hn::MulAdd(tail, t, hn::Set(d, -0.284496736f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.254829592f));
  tail = hn::Mul(hn::Mul(tail, t), hn::Exp(d, hn::Neg(hn::Mul(z, z))));
  // Half of 1 + erf(x / sqrt 2).
  const auto half_tail = hn::Mul(tail, hn::Set(d, 0.5f));
  const auto cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), half_tail, hn::Sub(one, half_tail));
  return hn::Mul(x, cdf);
}

void AddBiasGelu(float* x, const float* bias, int64_t rows, int64_t cols) {
  MapBiased(x, bias, rows, cols, [](auto d, auto v) HWY_ATTR { return Gelu(d, v); });
}

// `out` may be `x`.
HWY_INLINE void NormalizeRow(float* out, const float* x, const LayerNorm& norm, int64_t cols) {
  const auto count = static_cast<float>(cols);
  const float mean =
      Sum(cols, [=](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) / count;
  const float variance = Sum(cols,
                             [=](auto d, int64_t i) HWY_ATTR {
                               const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
                               return hn::Mul(v, v);
                             }) /
                         count;
  const float scale = 1.0f / std::sqrt(variance + norm.epsilon);
  const float *weight = norm.weight, *bias = norm.bias;
  ForEach(cols, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, scale));
    hn::StoreU(hn::MulAdd(v, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, out + i);
  });
}

void Normalize(float* out, const float* x, const LayerNorm& norm, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    NormalizeRow(out + row * cols, x + row * cols, norm, cols);
  }
}

void AddAndNormalize(float* x, const float* y, const float* bias, const LayerNorm& norm,
                     int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    AddThree(x, x, y, bias, cols);
    NormalizeRow(x, x, norm, cols);
  }
}

void MeanOfRows(float* out, const float* x, int64_t rows, int64_t cols, int64_t pitch) {
  const float scale = 1.0f / static_cast<float>(rows);
  ForEach(cols, [=](auto d, int64_t i) HWY_ATTR {
    auto sum = hn::LoadU(d, x + i);
    for (int64_t row = 1; row < rows; ++row) sum = hn::Add(sum, hn::LoadU(d, x + row * pitch + i));
    hn::StoreU(hn::Mul(sum, hn::Set(d, scale)), d, out + i);
  });
}

float ScaleToUnit(float* out, const float* x, int64_t cols) {
  const float square = Sum(cols, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
  const float length = std::sqrt(square);
  const float scale = 1.0f / std::max(length, 1e-12f);
  ForEach(cols, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)), d, out + i);
  });
  return length;
}

}  // namespace mp::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::model {

HWY_EXPORT(AddThree);
HWY_EXPORT(AddBias);
HWY_EXPORT(AddBiasGelu);
HWY_EXPORT(AddBiasRelu);
HWY_EXPORT(Normalize);
HWY_EXPORT(AddAndNormalize);
HWY_EXPORT(MeanOfRows);
HWY_EXPORT(ScaleToUnit);

void AddThree(float* out, const float* a, const float* b, const float* c, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(AddThree)(out, a, b, c, cols);
}
void AddBias(float* x, const float* bias, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(AddBias)(x, bias, rows, cols);
}
void AddBiasGelu(float* x, const float* bias, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(AddBiasGelu)(x, bias, rows, cols);
}
void AddBiasRelu(float* x, const float* bias, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(AddBiasRelu)(x, bias, rows, cols);
}
void Normalize(float* out, const float* x, const LayerNorm& norm, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(Normalize)(out, x, norm, rows, cols);
}
void AddAndNormalize(float* x, const float* y, const float* bias, const LayerNorm& norm,
                     int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(AddAndNormalize)(x, y, bias, norm, rows, cols);
}
void MeanOfRows(float* out, const float* x, int64_t rows, int64_t cols, int64_t pitch) {
  HWY_DYNAMIC_DISPATCH(MeanOfRows)(out, x, rows, cols, pitch);
}
float ScaleToUnit(float* out, const float* x, int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(ScaleToUnit)(out, x, cols);
}

}  // namespace mp::model
#endif  // HWY_ONCE
