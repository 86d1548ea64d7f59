// Attention of one head of one text: what attention.h puts together.
//
// SIMD is chosen at run time.
// Threads. Any, with a scratch each.
#ifndef MP_MODEL_ATTEND_H_
#define MP_MODEL_ATTEND_H_

#include <cstdint>

namespace mp::model {

// Rows of `size` floats, `length` of each; row i begins at i * pitch.
struct OneHead {
  const float* query;
  const float* key;
  const float* value;
  int64_t pitch;
  int64_t length;  // > 0
  int64_t size;    // > 0
};

// The floats that Attend wants for texts of at most `longest` rows.
int64_t AttendScratch(int64_t longest, int64_t size);

// out = softmax(query key^T / sqrt(size)) value; `length` rows, `out_pitch` apart.
void Attend(const OneHead& head, float* out, int64_t out_pitch, float* scratch);

}  // namespace mp::model

#endif  // MP_MODEL_ATTEND_H_
