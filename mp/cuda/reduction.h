// What of reductions NCCL can do, in its own words.
#ifndef MP_CUDA_REDUCTION_H_
#define MP_CUDA_REDUCTION_H_

#include <nccl.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/operation.h"

namespace mp::cuda {

// What NCCL cannot do, or not as mp defines it, and is done by a kernel of the rank's own:
//
//   avg     the division behind the sum; ncclAvg multiplies by 1/n first, which overflows elsewhere
//           and rounds twice
//   scale   before anything but a sum, or one that is no number of a 16-bit dtype: a pass from the
//           input to the output, which is then reduced in place
bool ScalesFirst(const Descriptor& step);

// Unsupported: a scale that needs such a pass, with one output for all.
absl::Status CheckReduction(const Descriptor& step);

// Of a dtype that has reductions.
ncclDataType_t NcclType(DType dtype);

// The NCCL operations of what is enqueued in one group: those with a scale belong to a communicator
// and are to be destroyed when the group has ended.
class Reductions {
 public:
  Reductions() = default;
  ~Reductions();
  Reductions(const Reductions&) = delete;
  Reductions& operator=(const Reductions&) = delete;

  // The scale is not in it where that comes first.
  absl::StatusOr<ncclRedOp_t> OpFor(const Descriptor& step, ncclComm_t comm);

 private:
  std::vector<std::pair<ncclRedOp_t, ncclComm_t>> made_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_REDUCTION_H_
