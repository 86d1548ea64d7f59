// What a caller may ask of a collective operation, beside its tensors.
#ifndef MP_COLLECTIVE_OPTIONS_H_
#define MP_COLLECTIVE_OPTIONS_H_

#include "mp/dtype.h"

namespace mp {

struct AllReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  // Float types: every input is multiplied by it first.
  double scale = 1.0;
  // All ranks give one and the same output, which nobody writes to afterwards.
  bool shared_output = false;
};

struct GatherOptions {
  // The joined dimension, -rank..rank-1.
  int dim = -1;
  // AllGather: all ranks give one and the same output, which nobody writes to afterwards.
  bool shared_output = false;
};

}  // namespace mp

#endif  // MP_COLLECTIVE_OPTIONS_H_
