// What the ranks of an operation must agree on, and how a disagreement is told.
//
// Threads. Pure functions; they look at an Operation whose Order the caller holds.
#ifndef MP_AGREEMENT_H_
#define MP_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "mp/operation.h"

namespace mp {

// Whether two ranks' lists of steps are the same, field by field of the table in agreement.cc.
bool Agree(absl::Span<const Descriptor> a, absl::Span<const Descriptor> b);

// "AllReduce f32[4, 2] sum"; a batch's steps joined by " + ".
std::string Describe(absl::Span<const Descriptor> steps);

// What is wrong between the ranks of a fully posted operation: "" where nothing is.  `ranks[peer]`
// is the World's number of each.  Looks at, in this order: the descriptors; the shards' sizes
// against the results'; memory that overlaps.  For a capture, all that of every operation that was
// recorded; but where a rank's recording failed, that is what is wrong, and not told here.
std::string FindDisagreement(const Operation& operation, absl::Span<const int> ranks);

// The same for what a capture has recorded.
std::string FindRecordedDisagreement(const Operation& capture, absl::Span<const int> ranks);

// "rank 3", "ranks 0-2, 5".
std::string RankList(absl::Span<const int> ranks);

}  // namespace mp

#endif  // MP_AGREEMENT_H_
