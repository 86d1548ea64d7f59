// What a caller may ask of a collective operation, beside its tensors.
#ifndef MP_COLLECTIVE_OPTIONS_H_
#define MP_COLLECTIVE_OPTIONS_H_

#include <optional>

#include "absl/time/time.h"
#include "mp/dtype.h"

namespace mp {

struct AllReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  // Float types: every input is multiplied by it first.
  double scale = 1.0;
  // All ranks give one and the same output, which nobody writes to afterwards.
  bool shared_output = false;
  // How long this call waits for ranks that do not come, in place of the Region's; where the ranks
  // of an operation or of a batch give several, the shortest.  InvalidArgument: negative.
  std::optional<absl::Duration> absence_timeout;
};

struct GatherOptions {
  // The joined dimension, -rank..rank-1.
  int dim = -1;
  // AllGather: all ranks give one and the same output, which nobody writes to afterwards.
  bool shared_output = false;
  // As AllReduceOptions'.
  std::optional<absl::Duration> absence_timeout;
};

struct AcquireSlotOptions {
  // As AllReduceOptions'.
  std::optional<absl::Duration> absence_timeout;
};

}  // namespace mp

#endif  // MP_COLLECTIVE_OPTIONS_H_
