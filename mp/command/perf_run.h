// Times one operation of one size: many queued one behind the other, and one at a time.
#ifndef MP_COMMAND_PERF_RUN_H_
#define MP_COMMAND_PERF_RUN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mp/dtype.h"
#include "mp/world.h"

namespace mp::command {

enum class PerfOp { kAllReduce, kGather, kAllGather };

struct PerfSpec {
  PerfOp op = PerfOp::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  int root = 0;
  int64_t rows = 64;    // of a gather's tensors; the last dimension is joined
  bool uneven = false;  // shards as 1 : 2 : 3 : ...
  bool by_rank = true;  // each rank calls on its thread; else one thread calls for all
  bool overlap = false;
  int batch = 1;  // operations of one call; by_rank only
  int warmup = 5;
  int64_t iterations = 20;
  absl::Duration at_least = absl::ZeroDuration();  // iterates until so much has passed
};

// Seconds for one operation.
struct PerfTimes {
  double average = 0;  // of operations queued one behind the other
  // Of operations that are waited for each.
  double min = 0;
  double median = 0;
  double p99 = 0;
  int64_t wrong = 0;  // elements, over all ranks
};

struct PerfRow {
  int64_t bytes = 0;  // of an AllReduce's tensor on each rank; of a gather's whole result
  int64_t count = 0;  // elements of an AllReduce's tensor; of the largest shard
  PerfTimes out_of_place;
  // AllReduce: into its input.  Gathers: from the shards' own slots in the result.
  PerfTimes in_place;
};

// Of about so many bytes, at least an element for each rank.
absl::StatusOr<PerfRow> Measure(World& world, const PerfSpec& spec, int64_t bytes);

// bytes / time times this is what crosses each rank's link: the bandwidth that hardware could be
// asked about (tools/README.md).
double BusFactor(PerfOp op, int ranks);

}  // namespace mp::command

#endif  // MP_COMMAND_PERF_RUN_H_
