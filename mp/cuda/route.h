// How each step of an operation moves its data.  Pure.
//
//   route        what                                                    for
//   kNone        nothing                                                 no element
//   kNccl        ncclAllReduce, or ncclReduce into a shared output       large reductions
//   kFold        one kernel of one GPU reads all inputs over peer        small ones
//                pointers, folds in rank order, writes all outputs
//   kSlicedFold  the same, each GPU a slice: every byte crosses a link   in between
//                2 (n - 1) / n times, as in a ring
//   kCopy        strided copies straight into place                      gathers
//   kRelay       NCCL into a workspace, and one strided pass             gathers where GPUs do not
//                                                                        reach each other's memory
//
// Folds need no second buffer, in place neither: a slice is read and written by one kernel alone.
#ifndef MP_CUDA_ROUTE_H_
#define MP_CUDA_ROUTE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "mp/operation.h"

namespace mp::cuda {

enum class StepRoute : uint8_t { kNone, kNccl, kFold, kSlicedFold, kCopy, kRelay };

// What the ranks of a Region have.
struct Reach {
  bool nccl = false;    // NCCL communicators: each rank has a GPU of its own
  bool peers = false;   // every GPU's kernels reach the memory of all others
  bool direct = false;  // and may reduce so
  int gpus = 0;
  int64_t direct_bytes = -1;  // reductions up to here are folded; negative: DirectBytes(gpus)
};

// The size in bytes up to which a reduction among so many GPUs is folded where NCCL could do it.
int64_t DirectBytes(int gpus);

// Up to this size one GPU folds it all.
inline constexpr int64_t kWholeFoldBytes = 64 << 10;

// `aligned`: all pointers are multiples of an element, without which NCCL's kernels fault.
StepRoute RouteOf(const Descriptor& step, bool aligned, const Reach& reach);

// "AllReduce by kernels over peer pointers up to 256 KiB, by NCCL above; Gather and AllGather by
// copies straight into the peer's memory"
std::string Describe(const Reach& reach);

}  // namespace mp::cuda

#endif  // MP_CUDA_ROUTE_H_
