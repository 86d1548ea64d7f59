// Several operations as one.
#ifndef MP_BATCH_H_
#define MP_BATCH_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/collective_options.h"
#include "mp/operation.h"
#include "mp/tensor.h"
#include "mp/work.h"

namespace mp {

class Group;
enum class Lane : int;
struct Plan;

// Several operations that are agreed on, ticketed and issued as one; they must not depend on each
// other.  Nothing is posted before End, and nothing at all without it.
//
//   mp::Batch batch = rank.region().NewBatch();
//   MP_RETURN_IF_ERROR(batch.AllReduce(x));
//   MP_RETURN_IF_ERROR(batch.Gather(shard, full, 0));
//   MP_RETURN_IF_ERROR(batch.End());
//
// Errors. As the Region's.  A call that is wrong adds nothing to the batch.
class Batch {
 public:
  absl::Status AllReduce(const TensorView& x, const AllReduceOptions& options = {});
  absl::Status AllReduce(const TensorView& x, const TensorView& output,
                         const AllReduceOptions& options = {});
  absl::Status Gather(const TensorView& shard, const TensorView& output, int root,
                      const GatherOptions& options = {});
  absl::Status AllGather(const TensorView& shard, const TensorView& output,
                         const GatherOptions& options = {});
  // Posts what was added, on the compute stream.  The batch is empty afterwards.
  absl::Status End();
  // The same on the Region's comm stream.
  absl::StatusOr<Work> Start();

 private:
  friend class RankRegion;
  Batch(std::shared_ptr<Group> group, int peer) : group_(std::move(group)), peer_(peer) {}
  absl::Status Add(const absl::StatusOr<Plan>& plan);
  absl::Status Post(Lane lane, Work* work);

  std::shared_ptr<Group> group_;
  int peer_;
  std::vector<Descriptor> steps_;
  std::vector<Part> parts_;
};

}  // namespace mp

#endif  // MP_BATCH_H_
