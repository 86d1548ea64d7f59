// Moves data between GPUs of one process, one rank on each: reductions by NCCL, gathers by strided
// peer copies straight into place.
//
// A CUDA stream cannot hold a place for what is not agreed yet, so everything is done in Issue:
//
//   reductions   one NCCL group for all steps and ranks
//   gathers      every stream waits for all streams (inputs ready, outputs free); each rank pushes
//                its shard on its own stream; who got an output waits for all pushes
//   the rest     every stream waits for all streams
#ifndef MP_CUDA_COMMUNICATOR_H_
#define MP_CUDA_COMMUNICATOR_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/cuda/device.h"
#include "mp/operation.h"

namespace mp::cuda {

class NcclCommunicator final : public Communicator {
 public:
  // The ranks' devices.  `launch` is held while an operation is enqueued on them.  All outlive the
  // communicator.  InvalidArgument: a device is named twice.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::vector<Device*> devices,
                                                              sync::Mutex& launch);
  ~NcclCommunicator() override;

  bool holds_places() const override { return false; }
  std::unique_ptr<Operation> NewOperation(Retirer& retirer) override;
  bool Enter(Operation& operation, int peer) override;
  absl::Status Issue(Operation& operation) override;
  void Arrive(Operation&, int) override {}
  void ArriveAll(Operation&) override {}
  void Drop(Operation& operation) override;
  std::string Route() const override { return "NCCL, peer copies"; }

 private:
  NcclCommunicator(std::vector<Device*> devices, sync::Mutex& launch);

  size_t size() const { return devices_.size(); }
  absl::Status Open();
  absl::Status Enqueue(const Operation& operation);
  absl::Status EnqueueReductions(const Operation& operation);
  absl::Status EnqueueGathers(const Operation& operation);
  absl::Status Meet(const Operation& operation);
  absl::Status Arrow(const Operation& operation, size_t from, size_t to);
  void AbortAll();

  const std::vector<Device*> devices_;
  sync::Mutex& launch_;
  // Guarded by launch_.
  std::vector<ncclComm_t> comms_;  // by peer; null once aborted
  // By peer, for waits that are queued right behind the record: those keep what they wait for, so
  // the next record may follow at once.
  std::vector<cudaEvent_t> edges_;
  Failure failure_;  // the first of NCCL's
};

}  // namespace mp::cuda

#endif  // MP_CUDA_COMMUNICATOR_H_
