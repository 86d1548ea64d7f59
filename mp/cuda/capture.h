// The streams that capture what ranks have recorded: two for each rank, like its lanes.
//
//   Capture capture(devices, /*together=*/true, clock);
//   MP_RETURN_IF_ERROR(capture.Begin(recordings));
//   ... what is enqueued on capture.compute(peer) and capture.overlap(peer) ...
//   MP_ASSIGN_OR_RETURN(std::vector<cudaGraphExec_t> graphs, capture.End());
//
// Together, all streams are part of one capture, and events order those of different ranks.
// Otherwise each rank has a capture of its own, and nothing but NCCL can order them.
//
// The captures are thread-local: other threads may do what they like, and this one calls nothing in
// between that could wait for a device.
//
// Errors.  Whatever has begun is ended and destroyed with the Capture.
// Threads. One, which holds the launch lock all the time.
#ifndef MP_CUDA_CAPTURE_H_
#define MP_CUDA_CAPTURE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/base/sync.h"
#include "mp/cuda/device.h"
#include "mp/cuda/stream.h"
#include "mp/recording.h"

namespace mp::cuda {

class Capture {
 public:
  // `devices`: the ranks', by peer.  All outlive it.
  Capture(std::vector<const Device*> devices, bool together, sync::Clock& clock);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  absl::Status Begin(const std::vector<std::shared_ptr<const Recording>>& recordings);

  Stream& compute(size_t peer) const { return *ranks_[peer].compute; }
  // Where operation `number` of the rank's list is to be enqueued, before and after that.  Where
  // there is NCCL, operations of both lanes run in the order of the list.
  absl::StatusOr<Stream*> BeginOperation(size_t peer, size_t number, bool overlaps);
  absl::Status EndOperation(size_t peer, size_t number, bool overlaps);
  // The compute lane waits for an operation that overlaps.
  absl::Status Join(size_t peer, size_t number);
  // An error where a call has spoilt the rank's capture.
  absl::Status CheckActive(size_t peer) const;

  // Executable graphs, ready to be launched: one, or one for each rank.  The caller's to destroy.
  absl::StatusOr<std::vector<cudaGraphExec_t>> End();

 private:
  struct Rank {
    std::unique_ptr<Stream> compute;
    std::unique_ptr<Stream> overlap;  // null where nothing overlaps
    cudaEvent_t edge = nullptr;       // for waits that are queued right behind the record
    cudaEvent_t last = nullptr;       // behind the last operation
    bool last_overlaps = false;
    std::vector<cudaEvent_t> ends;  // by operation: behind those that overlap, else null
  };

  absl::Status Open(size_t peer, const Recording& recording);
  absl::Status JoinLanes();
  absl::Status Instantiate(size_t peer, cudaGraph_t graph, std::vector<cudaGraphExec_t>& graphs);

  const std::vector<const Device*> devices_;
  const bool together_;
  sync::Clock& clock_;
  std::vector<Rank> ranks_;
  size_t begun_ = 0;  // ranks whose compute stream is where a capture has begun
};

}  // namespace mp::cuda

#endif  // MP_CUDA_CAPTURE_H_
