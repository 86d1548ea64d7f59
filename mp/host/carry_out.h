// The data movement of one step of an operation on the host, cut into pieces that do not touch
// each other's output and may run side by side.
//
// AllReduce reads each input once and writes each output once.  Gathers copy each row of a shard
// straight to its place in each result, and leave out the shards that lie there already.
#ifndef MP_HOST_CARRY_OUT_H_
#define MP_HOST_CARRY_OUT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "mp/operation.h"

namespace mp::host {

// Bytes that the step reads and writes: 0 where there is nothing to do.
int64_t BytesOf(const Descriptor& descriptor, absl::Span<const Part> parts);

// Runs piece `piece` of `pieces` of the step.
void CarryOut(const Descriptor& descriptor, absl::Span<const Part> parts, int64_t piece,
              int64_t pieces);

}  // namespace mp::host

#endif  // MP_HOST_CARRY_OUT_H_
