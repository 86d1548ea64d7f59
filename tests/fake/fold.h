// The arithmetic of the fake NCCL.
#ifndef MP_TESTS_FAKE_FOLD_H_
#define MP_TESTS_FAKE_FOLD_H_

#include <nccl.h>

#include <cstddef>

namespace mp::fake {

// Bytes of one element.
size_t SizeOf(ncclDataType_t type);

// Whether FoldInto can do it: all types but the 16-bit and 8-bit floats; sum, prod, min, max.
bool IsModelled(ncclDataType_t type, ncclRedOp_t op);

// total[i] = op(total[i], input[i]) for `count` elements; the memory need not be aligned.
void FoldInto(char* total, const char* input, size_t count, ncclDataType_t type, ncclRedOp_t op);

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_FOLD_H_
