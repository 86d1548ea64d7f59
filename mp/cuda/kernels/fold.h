// The arithmetic of a reduction on a GPU: one kernel that reads every input once, folds from left
// to right in registers and writes the same value to every output, bit by bit what
// mp/host/kernels/fold.h gives.
//
//   Fold fold = {.dtype = DType::kBF16, .op = ReduceOp::kSum, .input_count = 2, .output_count = 1};
//   fold.inputs[0] = mine;
//   fold.inputs[1] = theirs;   // of a peer whose memory this device reaches
//   fold.outputs[0] = mine;    // in place
//   fold.end = count;
//   MP_RETURN_IF_ERROR(MP_CUDA(LaunchFold(fold, stream)));
//
// Two shots are two such folds of a range [begin, end) for each rank.
//
// Pointers at any byte: it goes byte by byte where one is no multiple of an element.
//
// Errors.    cudaErrorInvalidValue, and nothing is enqueued: a pair that is not defined (types that
//            can only be moved, the average of integers), counts of pointers beyond kMostRanks or
//            no input.  Else what CUDA says.
// Threads.   Any; the stream's device is the current one.
// Ownership. Pointers are used until the stream has passed the kernel.
#ifndef MP_CUDA_KERNELS_FOLD_H_
#define MP_CUDA_KERNELS_FOLD_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "mp/dtype.h"

namespace mp::cuda {

inline constexpr int kMostRanks = 64;

// Pointers name element 0.  An output may be the same pointer as an input; otherwise no range of an
// output overlaps another range.
struct Fold {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int input_count = 0;
  int output_count = 0;
  const void* inputs[kMostRanks] = {};
  void* outputs[kMostRanks] = {};
  int64_t begin = 0;
  int64_t end = 0;
  // Multiplies every input first, rounded on its own.  Integer folds ignore it.
  double scale = 1.0;
  // What kAvg divides the sum by; 0 for the number of inputs.
  int divisor = 0;
  // Fewer leave multiprocessors to others.  As many as a large GPU holds at once by default: each
  // thread then goes over several elements, and more blocks would only start later.
  int most_blocks = 1024;
};

// Nothing is enqueued for an empty range or without outputs.
cudaError_t LaunchFold(const Fold& fold, cudaStream_t stream);

// Loads the kernels onto the current device.  A first launch would do it, and could wait there for
// what is running.
cudaError_t LoadFolds();

// values /= divisor, for f32, f64, f16 and bf16: the average of values that are sums already.
inline cudaError_t LaunchDivide(DType dtype, void* values, int64_t count, int divisor,
                                cudaStream_t stream) {
  Fold fold = {.dtype = dtype, .op = ReduceOp::kAvg, .input_count = 1, .output_count = 1};
  fold.inputs[0] = fold.outputs[0] = values;
  fold.end = count;
  fold.divisor = divisor;
  return LaunchFold(fold, stream);
}

// target = source * factor, for f32, f64, f16 and bf16: the fold of one input.
inline cudaError_t LaunchScale(DType dtype, const void* source, void* target, int64_t count,
                               double factor, cudaStream_t stream) {
  if (!IsReducibleFloat(dtype)) return cudaErrorInvalidValue;
  Fold fold = {.dtype = dtype, .input_count = 1, .output_count = 1, .end = count, .scale = factor};
  fold.inputs[0] = source;
  fold.outputs[0] = target;
  return LaunchFold(fold, stream);
}

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_FOLD_H_
