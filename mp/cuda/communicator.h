// Moves data between GPUs of one process, one rank on each: reductions by NCCL, gathers by strided
// copies straight into place.
//
// A CUDA stream cannot hold a place for what is not agreed yet, so everything is done in Issue:
//
//   reductions   one NCCL group for all steps and ranks.  An output that all share is reduced to by
//                the rank whose memory it is, and every stream waits for all streams
//   gathers      every stream waits for all streams (inputs ready, outputs free); each rank pushes
//                its shard on its own stream; who got an output waits for all pushes
//   the rest     every stream waits for all streams
#ifndef MP_CUDA_COMMUNICATOR_H_
#define MP_CUDA_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/communicator.h"
#include "mp/cuda/clique.h"
#include "mp/cuda/device.h"
#include "mp/cuda/reduction.h"
#include "mp/operation.h"

namespace mp::cuda {

class NcclCommunicator final : public Communicator {
 public:
  // Of these ranks of the clique, in their order.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::shared_ptr<Clique> clique,
                                                              std::vector<int> ranks);
  ~NcclCommunicator() override;

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
  std::string Route() const override { return "NCCL, peer copies"; }

 private:
  NcclCommunicator(std::shared_ptr<Clique> clique, std::vector<int> ranks);

  size_t size() const { return ranks_.size(); }
  Device& device(size_t peer) const {
    return *clique_->devices()[static_cast<size_t>(ranks_[peer])];
  }
  absl::Status Open();
  absl::Status Enqueue(const Operation& operation);
  absl::Status EnqueueSteps(const Operation& operation);
  absl::Status EnqueueReductions(const Operation& operation);
  absl::Status EnqueueReduction(const Descriptor& step, const Part& part, size_t peer,
                                cudaStream_t stream, Reductions& reductions);
  absl::Status EnqueueGathers(const Operation& operation);
  absl::Status Meet(const Operation& operation);
  absl::Status Arrow(const Operation& operation, size_t from, size_t to);
  // The peer on whose device this memory is.
  absl::StatusOr<size_t> OwnerOf(const void* data) const;
  absl::Status CheckMemory(absl::string_view what, const void* data, int peer, bool own) const;

  const std::shared_ptr<Clique> clique_;
  const std::vector<int> ranks_;  // of the clique, by peer
  // Guarded by the clique's launch lock.
  const Clique::Comms* comms_ = nullptr;  // by peer
  // By peer, for waits that are queued right behind the record: those keep what they wait for, so
  // the next record may follow at once.
  std::vector<cudaEvent_t> edges_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_COMMUNICATOR_H_
