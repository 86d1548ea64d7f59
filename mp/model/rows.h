// What an encoder does to rows beside the products of matrices.  f32; `cols` contiguous elements a
// row, a pitch is counted in elements.
//
// SIMD is chosen at run time.  Every result depends on its own row alone.
// Threads. Any, on rows apart.
#ifndef MP_MODEL_ROWS_H_
#define MP_MODEL_ROWS_H_

#include <cstdint>

namespace mp::model {

// out = a + b + c, one row.
void AddThree(float* out, const float* a, const float* b, const float* c, int64_t cols);

// x = x + bias, for dense rows.
void AddBias(float* x, const float* bias, int64_t rows, int64_t cols);

// x = gelu(x + bias), for dense rows.  gelu(x) = x / 2 (1 + erf(x / sqrt 2)), to 2e-7 |x|; erf by
// Abramowitz and Stegun, 7.1.26.
void AddBiasGelu(float* x, const float* bias, int64_t rows, int64_t cols);

// x = max(x + bias, 0), for dense rows.
void AddBiasRelu(float* x, const float* bias, int64_t rows, int64_t cols);

struct LayerNorm {
  const float* weight;
  const float* bias;
  float epsilon;  // is added to the variance
};

// out = LayerNorm(x), for dense rows: (x - mean) / sqrt(variance + epsilon) * weight + bias.
void Normalize(float* out, const float* x, const LayerNorm& norm, int64_t rows, int64_t cols);

// x = LayerNorm(x + y + bias), for dense rows: the end of a block, with the bias of its last
// product, which was left out of the sum over ranks.
void AddAndNormalize(float* x, const float* y, const float* bias, const LayerNorm& norm,
                     int64_t rows, int64_t cols);

// out = the mean of rows, whose first `cols` elements are taken; rows > 0.
void MeanOfRows(float* out, const float* x, int64_t rows, int64_t cols, int64_t pitch);

// out = x / its Euclidean length, or x / 1e-12 where it is shorter than that; one row.  The length.
float ScaleToUnit(float* out, const float* x, int64_t cols);

}  // namespace mp::model

#endif  // MP_MODEL_ROWS_H_
