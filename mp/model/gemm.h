// The product of matrices, by oneDNN.
//
// f32 in row-major order; a pitch is counted in elements, from row to row.
//
// Errors.  DeviceError: what oneDNN says.
// Threads. Any; ScopedThreads says how many each call uses.
#ifndef MP_MODEL_GEMM_H_
#define MP_MODEL_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace mp::model {

struct Matrix {
  const float* data;
  int64_t pitch;
};

// out [m, n] = scale * a [m, k] times b, which is [n, k] and taken transposed, as the weights of a
// linear layer are kept.
absl::Status MultiplyTransposed(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k,
                                float scale, float* out, int64_t out_pitch);

}  // namespace mp::model

#endif  // MP_MODEL_GEMM_H_
