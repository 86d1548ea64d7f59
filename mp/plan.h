// From the arguments of a call to what is posted: the checks that one rank's own call allows.
//
// Errors. InvalidArgument and Unsupported, with the values found.
// Threads. Pure functions.
#ifndef MP_PLAN_H_
#define MP_PLAN_H_

#include "absl/status/statusor.h"
#include "mp/collective_options.h"
#include "mp/operation.h"
#include "mp/tensor.h"

namespace mp {

// One rank's side of one operation.
struct Plan {
  Descriptor descriptor;
  Part part;
};

absl::StatusOr<Plan> PlanAllReduce(const TensorView& x, const TensorView& output,
                                   const AllReduceOptions& options);

// `root` < 0 plans an AllGather.  `output` is looked at where `receives`.
absl::StatusOr<Plan> PlanGather(const TensorView& shard, const TensorView& output, int root,
                                int world_size, bool receives, const GatherOptions& options);

absl::StatusOr<Plan> PlanAcquireSlot(const AcquireSlotOptions& options);

// `dim` counted from 0.  InvalidArgument: the tensor has no such dimension.
absl::StatusOr<int> NormalizeDim(int dim, const TensorView& view);

}  // namespace mp

#endif  // MP_PLAN_H_
