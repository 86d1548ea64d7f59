// Moves data between the GPUs of one process: reductions by NCCL or by kernels over peer pointers,
// gathers by strided copies straight into place, or by NCCL where GPUs do not reach each other.
//
// A CUDA stream cannot hold a place for what is not agreed yet, so everything is done in Issue:
//
//   NCCL         one NCCL group for all steps and ranks.  An output that all share is reduced to by
//                the rank whose memory it is, and every stream waits for all streams
//   the rest     every stream waits for all streams (inputs ready, outputs free); kernels and
//                copies of each GPU run on one of its streams; who got an output waits for all.
//                Where one stream does all the work the others meet there before and after
//
// See route.h for which it is.  The same functions put a graph's operations onto streams that
// capture (graph.h).
#ifndef MP_CUDA_COMMUNICATOR_H_
#define MP_CUDA_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mp/communicator.h"
#include "mp/cuda/clique.h"
#include "mp/cuda/device.h"
#include "mp/cuda/direct.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/reduction.h"
#include "mp/cuda/relay.h"
#include "mp/cuda/route.h"
#include "mp/operation.h"

namespace mp::cuda {

class Capture;
class CudaGraph;

class CudaCommunicator final : public Communicator {
 public:
  struct Limits {
    bool direct = true;         // reductions may go over peer pointers
    int64_t direct_bytes = -1;  // see Reach
    int64_t workspace_bytes = 0;
  };
  // Of these ranks of the clique, in their order.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::shared_ptr<Clique> clique,
                                                              std::vector<int> ranks,
                                                              const Limits& limits);
  ~CudaCommunicator() override;

  bool holds_places() const override { return false; }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(const std::vector<int>& peers) override;
  absl::Status Inspect(const Descriptor& step, const Part& part, int peer) const override;
  absl::Status Health() override { return clique_->Health(); }
  void Abort() override { clique_->Abort(); }
  std::unique_ptr<Operation> NewOperation(Retirer& retirer) override;
  bool Enter(Operation& operation, int peer) override;
  absl::Status Issue(Operation& operation) override;
  void Arrive(Operation&, int) override {}
  void ArriveAll(Operation&) override {}
  void Drop(Operation& operation) override;
  std::string Route() const override { return Describe(reach_); }
  absl::StatusOr<std::unique_ptr<CompiledGraph>> Compile(const RecordedGraph& graph) override;

 private:
  CudaCommunicator(std::shared_ptr<Clique> clique, std::vector<int> ranks, const Limits& limits);

  size_t size() const { return ranks_.size(); }
  Device& device(size_t peer) const {
    return *clique_->devices()[static_cast<size_t>(ranks_[peer])];
  }
  // How operations are enqueued.
  struct Way {
    Reach reach;
    bool captures = false;       // onto streams that capture: nothing runs
    bool meets_by_nccl = false;  // streams that no event can order
  };

  absl::Status Open();
  absl::Status Enqueue(const Operation& operation);
  absl::Status EnqueueSteps(const Operation& operation, const Way& way);
  void Drain(const Operation& operation) const;
  static StepRoute RouteFor(const Descriptor& step, absl::Span<const Part> parts,
                            const Reach& reach);
  // NCCL's part.
  bool UsesNccl(int step) const;
  absl::Status EnqueueReductions(const Operation& operation);
  absl::Status EnqueueGroup(const Operation& operation);
  absl::Status EnqueueReduction(const Descriptor& step, const Part& part, size_t peer,
                                cudaStream_t stream, Reductions& reductions);
  absl::Status ScaleFirst(const Operation& operation);
  absl::Status DivideSums(const Operation& operation);
  absl::Status MeetByNccl(const Operation& operation);
  absl::Status EndGroup(absl::Status status);
  // The rest.
  absl::Status EnqueueRest(const Operation& operation, const Way& way);
  absl::Status PlanRest(const Operation& operation);
  absl::Status PlanRelay(const Descriptor& step, absl::Span<const Part> parts);
  absl::Status EnqueueRelays(const Operation& operation, const Way& way);
  absl::Status MeetBehind(const Operation& operation);
  absl::Status MeetAtFirst(const Operation& operation, bool only_workers);
  absl::Status LeaveFirst(const Operation& operation);
  absl::Status Arrow(const Operation& operation, size_t from, size_t to);
  // Graphs, in graph.cc.
  absl::Status EnqueueGraph(const Operation& operation, CudaGraph& graph);
  absl::Status CaptureUpTo(const RecordedGraph& graph, size_t number, std::vector<size_t>& done,
                           Capture& capture);
  absl::Status CaptureItem(const RecordedItem& item, size_t peer, Capture& capture);
  absl::Status CaptureOperation(const RecordedGraph& graph, std::vector<size_t>& done,
                                Capture& capture);
  // The peer on whose device this memory is.
  absl::StatusOr<size_t> OwnerOf(const void* data) const;
  absl::Status CheckOpen(const void* data, size_t owner) const;
  absl::Status CheckMemory(OpKind kind, absl::string_view what, const void* data, int peer,
                           bool own) const;

  const std::shared_ptr<Clique> clique_;
  const std::vector<int> ranks_;              // of the clique, by peer
  const std::vector<const Device*> devices_;  // by peer
  const Limits limits_;
  Reach reach_;
  // Guarded by the clique's launch lock.
  std::vector<StepRoute> routes_;  // of the operation that is being enqueued, by step
  Direct direct_;
  std::unique_ptr<Relay> relay_;  // null where no gather needs it
  std::vector<Push> planned_;     // of the step that is being planned
  // Of what is being enqueued, what the relay takes; and where that of each such step ends.
  std::vector<Push> relayed_;
  std::vector<size_t> relayed_ends_;
  const Clique::Comms* comms_ = nullptr;  // by peer
  // By peer, for waits that are queued right behind the record: those keep what they wait for, so
  // the next record may follow at once.
  std::vector<cudaEvent_t> edges_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_COMMUNICATOR_H_
