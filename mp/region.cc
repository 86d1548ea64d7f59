#include "mp/region.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "mp/agreement.h"
#include "mp/base/status.h"
#include "mp/callback.h"
#include "mp/group.h"
#include "mp/plan.h"
#include "mp/world.h"

namespace mp {
namespace {

using Views = absl::Span<const TensorView>;
using Parts = absl::InlinedVector<Part, 8>;

absl::Status CheckCount(const Group& group, size_t count, absl::string_view what) {
  if (count == static_cast<size_t>(group.size())) return absl::OkStatus();
  return InvalidArgument("Region \"", group.name(), "\": ", count, " ", what, " for ", group.size(),
                         " ranks");
}

absl::Status Named(const Group& group, const absl::Status& status) {
  if (status.ok()) return status;
  return MakeError(KindOf(status),
                   absl::StrCat("Region \"", group.name(), "\": ", status.message()));
}

// What is wrong with a call's arguments, or that the backend cannot do it, with the Region's name
// in front.
absl::StatusOr<Plan> Checked(Group& group, int peer, absl::StatusOr<Plan> plan) {
  MP_RETURN_IF_ERROR(group.order().maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("an operation"));
  const absl::Status status =
      plan.ok() ? group.Inspect(peer, plan->descriptor, plan->part) : plan.status();
  if (status.ok()) return plan;
  Recording* const recording = group.RecordingOf(peer);
  return recording == nullptr ? Named(group, status) : recording->Refuse(Named(group, status));
}

// One rank's own call.
absl::Status PostOne(Group& group, int peer, const Plan& plan, Lane lane, Work* work) {
  if (group.RecordingOf(peer) != nullptr) {
    return group.PostRecorded(peer, absl::MakeConstSpan(&plan.descriptor, 1),
                              absl::MakeConstSpan(&plan.part, 1), lane, work);
  }
  if (group.size() == 1) {
    MP_RETURN_IF_ERROR(group.CheckDriver(peer));
    return group.PostAlone(plan, lane, work);
  }
  return group.Post(peer, absl::MakeConstSpan(&plan.descriptor, 1),
                    absl::MakeConstSpan(&plan.part, 1), lane, work);
}

absl::StatusOr<Plan> PlanGatherOf(Group& group, int peer, const TensorView& shard,
                                  const TensorView& output, int root,
                                  const GatherOptions& options) {
  if (root < 0) {
    return Checked(
        group, peer,
        InvalidArgument("Gather: root ", root, " of a Region of ", group.size(), " ranks"));
  }
  return Checked(group, peer, PlanGather(shard, output, root, group.size(), peer == root, options));
}

absl::StatusOr<Plan> PlanAllGatherOf(Group& group, int peer, const TensorView& shard,
                                     const TensorView& output, const GatherOptions& options) {
  return Checked(group, peer, PlanGather(shard, output, -1, group.size(), true, options));
}

absl::StatusOr<Plan> PlanAllReduceOf(Group& group, int peer, const TensorView& x,
                                     const TensorView& output, const AllReduceOptions& options) {
  return Checked(group, peer, PlanAllReduce(x, output, options));
}

absl::StatusOr<Work> PostForWork(Group& group, int peer, const absl::StatusOr<Plan>& plan) {
  MP_RETURN_IF_ERROR(plan);
  Work work;
  MP_RETURN_IF_ERROR(PostOne(group, peer, *plan, Lane::kComm, &work));
  return work;
}

// The one-call door: `plan_of(peer)` plans each rank's side.
template <typename PlanOf>
absl::Status PostEach(Group& group, Lane lane, std::vector<Work>* works, PlanOf plan_of) {
  MP_ASSIGN_OR_RETURN(const Plan first, plan_of(0));
  if (group.size() == 1) {
    {
      sync::MutexLock lock(group.order().mutex);
      MP_RETURN_IF_ERROR(group.CheckPostAll(lane));
    }
    Work work;
    MP_RETURN_IF_ERROR(group.PostAlone(first, lane, &work));
    if (works != nullptr) works->push_back(std::move(work));
    return absl::OkStatus();
  }
  Parts parts{first.part};
  std::vector<Operation::Differing> differing;
  for (int peer = 1; peer < group.size(); ++peer) {
    MP_ASSIGN_OR_RETURN(const Plan plan, plan_of(static_cast<size_t>(peer)));
    parts.push_back(plan.part);
    if (!Agree(absl::MakeConstSpan(&first.descriptor, 1),
               absl::MakeConstSpan(&plan.descriptor, 1))) {
      differing.push_back({peer, {plan.descriptor}});
    }
  }
  return group.PostAll(first.descriptor, parts, std::move(differing), lane, works);
}

// Whether a view that is sound makes the other one so.
bool SameLayout(const TensorView& a, const TensorView& b) {
  return a.dtype() == b.dtype() && a.row_pitch() == b.row_pitch() && a.shape() == b.shape() &&
         a.data() != nullptr && b.data() != nullptr;
}

absl::Status AllReduceAll(Group& group, Views xs, Views outputs, const AllReduceOptions& options,
                          Lane lane, std::vector<Work>* works) {
  MP_RETURN_IF_ERROR(CheckCount(group, xs.size(), "inputs"));
  MP_RETURN_IF_ERROR(CheckCount(group, outputs.size(), "outputs"));
  const bool alike =
      xs.data() == outputs.data() && group.size() > 1 &&
      std::all_of(xs.begin(), xs.end(), [&](const auto& x) { return SameLayout(x, xs[0]); });
  if (!alike) {
    return PostEach(group, lane, works, [&](size_t peer) {
      return PlanAllReduceOf(group, static_cast<int>(peer), xs[peer], outputs[peer], options);
    });
  }
  // In place, all of one layout: one plan stands for all.
  MP_ASSIGN_OR_RETURN(const Plan plan, PlanAllReduceOf(group, 0, xs[0], xs[0], options));
  Parts parts(xs.size(), plan.part);
  for (size_t peer = 1; peer < xs.size(); ++peer) {
    parts[peer].input = parts[peer].output = xs[peer].data();
    MP_RETURN_IF_ERROR(
        Named(group, group.Inspect(static_cast<int>(peer), plan.descriptor, parts[peer])));
  }
  return group.PostAll(plan.descriptor, parts, {}, lane, works);
}

absl::Status GatherAll(Group& group, Views shards, const TensorView& output, int root,
                       const GatherOptions& options, Lane lane, std::vector<Work>* works) {
  MP_RETURN_IF_ERROR(CheckCount(group, shards.size(), "shards"));
  return PostEach(group, lane, works, [&](size_t peer) {
    return PlanGatherOf(group, static_cast<int>(peer), shards[peer], output, root, options);
  });
}

absl::Status AllGatherAll(Group& group, Views shards, Views outputs, const GatherOptions& options,
                          Lane lane, std::vector<Work>* works) {
  MP_RETURN_IF_ERROR(CheckCount(group, shards.size(), "shards"));
  MP_RETURN_IF_ERROR(CheckCount(group, outputs.size(), "outputs"));
  return PostEach(group, lane, works, [&](size_t peer) {
    return PlanAllGatherOf(group, static_cast<int>(peer), shards[peer], outputs[peer], options);
  });
}

}  // namespace

// --- one rank's door ---------------------------------------------------------------------------

int RankRegion::world_size() const { return group_->size(); }

absl::Status RankRegion::AllReduce(const TensorView& x, const AllReduceOptions& options) {
  return AllReduce(x, x, options);
}

absl::Status RankRegion::AllReduce(const TensorView& x, const TensorView& output,
                                   const AllReduceOptions& options) {
  MP_ASSIGN_OR_RETURN(const Plan plan, PlanAllReduceOf(*group_, peer_, x, output, options));
  return PostOne(*group_, peer_, plan, Lane::kCompute, nullptr);
}

absl::Status RankRegion::Gather(const TensorView& shard, const TensorView& output, int root,
                                const GatherOptions& options) {
  MP_ASSIGN_OR_RETURN(const Plan plan, PlanGatherOf(*group_, peer_, shard, output, root, options));
  return PostOne(*group_, peer_, plan, Lane::kCompute, nullptr);
}

absl::Status RankRegion::AllGather(const TensorView& shard, const TensorView& output,
                                   const GatherOptions& options) {
  MP_ASSIGN_OR_RETURN(const Plan plan, PlanAllGatherOf(*group_, peer_, shard, output, options));
  return PostOne(*group_, peer_, plan, Lane::kCompute, nullptr);
}

absl::Status RankRegion::AcquireSlot(const AcquireSlotOptions& options) {
  MP_ASSIGN_OR_RETURN(const Plan plan, Checked(*group_, peer_, PlanAcquireSlot(options)));
  return PostOne(*group_, peer_, plan, Lane::kCompute, nullptr);
}

absl::StatusOr<Work> RankRegion::StartAllReduce(const TensorView& x,
                                                const AllReduceOptions& options) {
  return StartAllReduce(x, x, options);
}

absl::StatusOr<Work> RankRegion::StartAllReduce(const TensorView& x, const TensorView& output,
                                                const AllReduceOptions& options) {
  return PostForWork(*group_, peer_, PlanAllReduceOf(*group_, peer_, x, output, options));
}

absl::StatusOr<Work> RankRegion::StartGather(const TensorView& shard, const TensorView& output,
                                             int root, const GatherOptions& options) {
  return PostForWork(*group_, peer_, PlanGatherOf(*group_, peer_, shard, output, root, options));
}

absl::StatusOr<Work> RankRegion::StartAllGather(const TensorView& shard, const TensorView& output,
                                                const GatherOptions& options) {
  return PostForWork(*group_, peer_, PlanAllGatherOf(*group_, peer_, shard, output, options));
}

absl::StatusOr<TensorView> RankRegion::Slot(const TensorView& output, int peer,
                                            absl::Span<const int64_t> extents, int dim) const {
  MP_RETURN_IF_ERROR(output.Check("Slot: the output"));
  MP_ASSIGN_OR_RETURN(const int joined, NormalizeDim(dim, output));
  const int n = group_->size();
  if (peer < 0 || peer >= n) {
    return InvalidArgument("Slot: peer ", peer, " of a Region of ", n, " ranks");
  }
  const Shape& shape = output.shape();
  const int64_t total = shape.dim(joined);
  int64_t begin = total / n * peer, size = total / n;
  if (extents.empty() && total % n != 0) {
    return InvalidArgument("Slot: ", total, " of ", output.ToString(), " do not divide by ", n,
                           " ranks; give the shards' sizes");
  }
  if (!extents.empty()) {
    MP_RETURN_IF_ERROR(CheckCount(*group_, extents.size(), "sizes"));
    int64_t sum = 0;
    for (int r = 0; r < n; ++r) {
      if (r == peer) begin = sum;
      const int64_t extent = extents[static_cast<size_t>(r)];
      if (extent < 0 || __builtin_add_overflow(sum, extent, &sum)) sum = -1;
      if (sum < 0) break;
    }
    if (sum != total) {
      return InvalidArgument("Slot: the shards' sizes do not add up to the ", total, " of ",
                             output.ToString());
    }
    size = extents[static_cast<size_t>(peer)];
  }
  if (joined == shape.rank() - 1) return output.Columns(begin, size);
  if (shape.Product(0, joined) > 1) {
    return Unsupported("Slot: dimension ", joined, " of ", output.ToString(),
                       ": the slot would not be rows of one pitch");
  }
  const int64_t rows = begin * shape.Product(joined + 1, shape.rank() - 1);
  return TensorView::Pitched(static_cast<char*>(output.data()) + rows * output.row_pitch(),
                             output.dtype(), shape.With(joined, size), output.row_pitch());
}

Stream& RankRegion::stream() const { return *group_->member(peer_).stream; }

absl::StatusOr<Graph> RankRegion::Capture(const CaptureFunction& function) {
  return group_->Capture(peer_, [&](int) { return function(*this); });
}

// --- one rank's batch --------------------------------------------------------------------------

absl::Status Batch::Add(const absl::StatusOr<Plan>& plan) {
  MP_RETURN_IF_ERROR(plan);
  steps_.push_back(plan->descriptor);
  parts_.push_back(plan->part);
  return absl::OkStatus();
}

absl::Status Batch::AllReduce(const TensorView& x, const AllReduceOptions& options) {
  return AllReduce(x, x, options);
}

absl::Status Batch::AllReduce(const TensorView& x, const TensorView& output,
                              const AllReduceOptions& options) {
  return Add(PlanAllReduceOf(*group_, peer_, x, output, options));
}

absl::Status Batch::Gather(const TensorView& shard, const TensorView& output, int root,
                           const GatherOptions& options) {
  return Add(PlanGatherOf(*group_, peer_, shard, output, root, options));
}

absl::Status Batch::AllGather(const TensorView& shard, const TensorView& output,
                              const GatherOptions& options) {
  return Add(PlanAllGatherOf(*group_, peer_, shard, output, options));
}

absl::Status Batch::End() { return Post(Lane::kCompute, nullptr); }

absl::StatusOr<Work> Batch::Start() {
  Work work;
  MP_RETURN_IF_ERROR(Post(Lane::kComm, &work));
  return work;
}

absl::Status Batch::Post(Lane lane, Work* work) {
  MP_RETURN_IF_ERROR(group_->order().maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("a Batch's end"));
  const std::vector<Descriptor> steps = std::exchange(steps_, {});
  const std::vector<Part> parts = std::exchange(parts_, {});
  if (group_->RecordingOf(peer_) != nullptr) {
    return group_->PostRecorded(peer_, steps, parts, lane, work);
  }
  if (group_->size() > 1) return group_->Post(peer_, steps, parts, lane, work);
  MP_RETURN_IF_ERROR(group_->CheckDriver(peer_));
  for (size_t i = 0; i < steps.size(); ++i) {
    MP_RETURN_IF_ERROR(group_->CheckAlone(Plan{steps[i], parts[i]}));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    MP_RETURN_IF_ERROR(group_->PostAlone(Plan{steps[i], parts[i]}, lane, work));
  }
  return absl::OkStatus();
}

// --- all ranks' door ---------------------------------------------------------------------------

int Region::world_size() const { return group_->size(); }
const std::string& Region::name() const { return group_->name(); }

absl::Status Region::AllReduce(Views xs, const AllReduceOptions& options) {
  return AllReduceAll(*group_, xs, xs, options, Lane::kCompute, nullptr);
}

absl::Status Region::AllReduce(Views xs, Views outputs, const AllReduceOptions& options) {
  return AllReduceAll(*group_, xs, outputs, options, Lane::kCompute, nullptr);
}

absl::Status Region::Gather(Views shards, const TensorView& output, int root,
                            const GatherOptions& options) {
  return GatherAll(*group_, shards, output, root, options, Lane::kCompute, nullptr);
}

absl::Status Region::AllGather(Views shards, Views outputs, const GatherOptions& options) {
  return AllGatherAll(*group_, shards, outputs, options, Lane::kCompute, nullptr);
}

absl::StatusOr<std::vector<Work>> Region::StartAllReduce(Views xs,
                                                         const AllReduceOptions& options) {
  return StartAllReduce(xs, xs, options);
}

absl::StatusOr<std::vector<Work>> Region::StartAllReduce(Views xs, Views outputs,
                                                         const AllReduceOptions& options) {
  std::vector<Work> works;
  MP_RETURN_IF_ERROR(AllReduceAll(*group_, xs, outputs, options, Lane::kComm, &works));
  return works;
}

absl::StatusOr<std::vector<Work>> Region::StartGather(Views shards, const TensorView& output,
                                                      int root, const GatherOptions& options) {
  std::vector<Work> works;
  MP_RETURN_IF_ERROR(GatherAll(*group_, shards, output, root, options, Lane::kComm, &works));
  return works;
}

absl::StatusOr<std::vector<Work>> Region::StartAllGather(Views shards, Views outputs,
                                                         const GatherOptions& options) {
  std::vector<Work> works;
  MP_RETURN_IF_ERROR(AllGatherAll(*group_, shards, outputs, options, Lane::kComm, &works));
  return works;
}

absl::StatusOr<Graph> Region::Capture(const CaptureFunction& function) {
  return group_->CaptureAll([&](int peer) {
    RankRegion region(group_, peer);
    return function(region);
  });
}

absl::StatusOr<RankRegion> Region::ForRank(const Rank& rank) const {
  const int peer = group_->PeerOf(*rank.state_);
  if (peer < 0) {
    return InvalidArgument("Region \"", name(), "\": rank ", rank.id(), " is not a member");
  }
  return RankRegion(group_, peer);
}

void Region::Close() {
  group_->Fail(ErrorKind::kClosed, absl::StrCat("Region \"", name(), "\" is closed"));
}

void Region::Cancel(absl::string_view reason) {
  group_->Fail(ErrorKind::kCancelled,
               absl::StrCat("Region \"", name(), "\" was cancelled: ", reason));
}

absl::Status Region::status() const { return group_->status(); }

}  // namespace mp
