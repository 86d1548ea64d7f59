// Gathers between GPUs that do not reach each other's memory: by NCCL into a workspace, and from
// there to their places in one strided pass.  What is contiguous on a side skips the workspace
// there.
//
// A workspace has one slot to send from and one for what comes from each rank, all of one size;
// larger shards go in pieces.  Each rank's stream orders their use, so that pieces, and operations,
// follow each other without events.
//
// Threads. One at a time, with the launch lock held.
#ifndef MP_CUDA_RELAY_H_
#define MP_CUDA_RELAY_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mp/cuda/device.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/kernels/copy.h"

namespace mp::cuda {

class Relay {
 public:
  // A workspace of about so many bytes on each device, and connections between all of them.
  static absl::StatusOr<std::unique_ptr<Relay>> Create(std::vector<Device*> devices,
                                                       std::vector<ncclComm_t> comms, size_t bytes);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The pushes of one gather, between memories of the ranks' own devices; those of one source in a
  // row.  The calling thread's current device is another one afterwards.
  absl::Status Enqueue(absl::Span<const Push> pushes, absl::Span<const cudaStream_t> streams);

 private:
  Relay(std::vector<Device*> devices, std::vector<ncclComm_t> comms, size_t slot)
      : devices_(std::move(devices)),
        comms_(std::move(comms)),
        slot_(slot),
        workspaces_(devices_.size(), nullptr),
        packs_(devices_.size()),
        unpacks_(devices_.size()) {}

  // What NCCL moves of one piece.
  struct Transfer {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
    size_t source, target;
  };

  absl::Status Open();
  absl::Status EnqueuePiece(absl::Span<const Push> pushes, size_t piece,
                            absl::Span<const cudaStream_t> streams);
  absl::Status Launch(std::vector<std::vector<StridedCopy>>& copies,
                      absl::Span<const cudaStream_t> streams);
  // Where `peer` sends from, and where it receives what comes from `source`.
  std::byte* SendSlot(size_t peer) const { return workspaces_[peer]; }
  std::byte* ReceiveSlot(size_t peer, size_t source) const {
    return workspaces_[peer] + (source + 1) * slot_;
  }

  const std::vector<Device*> devices_;  // by peer
  const std::vector<ncclComm_t> comms_;
  const size_t slot_;  // bytes
  std::vector<std::byte*> workspaces_;
  // Of the piece that is being enqueued; copies by peer.
  std::vector<std::vector<StridedCopy>> packs_, unpacks_;
  std::vector<Transfer> transfers_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_RELAY_H_
