// The arithmetic of the fake NCCL.
#ifndef MP_TESTS_FAKE_FOLD_H_
#define MP_TESTS_FAKE_FOLD_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace mp::fake {

// Bytes of one element.
size_t SizeOf(ncclDataType_t type);

// Whether Fold can do it: all types but the 8-bit floats; sum, prod, min, max.
bool IsModelled(ncclDataType_t type, ncclRedOp_t op);

// One rank's numbers, each multiplied by `scale` first.
struct Operand {
  const char* data;
  double scale = 1;
};

// The operands' fold, from the first to the last, `count` elements; the memory need not be aligned.
// 16-bit floats are folded in f32 and rounded once, scaled ones before that too.  A number beats
// NaN in min and max, and -0 < +0.
void Fold(char* result, const std::vector<Operand>& operands, size_t count, ncclDataType_t type,
          ncclRedOp_t op);

// The number at `data`.
double Decode(const void* data, ncclDataType_t type);

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_FOLD_H_
