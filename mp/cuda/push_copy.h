// A push of a gather as what a kernel copies.
#ifndef MP_CUDA_PUSH_COPY_H_
#define MP_CUDA_PUSH_COPY_H_

#include <cstddef>
#include <cstdint>

#include "mp/cuda/gather.h"
#include "mp/cuda/kernels/copy.h"

namespace mp::cuda {

inline StridedCopy CopyOf(const Push& push) {
  const auto number = [](size_t value) { return static_cast<int64_t>(value); };
  StridedCopy copy;
  copy.from = {push.from.data, number(push.from.pitch), number(push.from.pitch * push.from.rows)};
  copy.to = {push.to.data, number(push.to.pitch), number(push.to.pitch * push.to.rows)};
  copy.width = number(push.width);
  copy.height = number(push.height);
  copy.depth = number(push.depth);
  return copy;
}

}  // namespace mp::cuda

#endif  // MP_CUDA_PUSH_COPY_H_
