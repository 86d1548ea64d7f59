// A graph over CUDA: what the ranks have recorded, as executable graphs of CUDA's.
//
//   where                               graphs, and how operations in them meet
//   every GPU reaches all others        one over the streams of all ranks, by its edges.  Kernels
//                                       and copies over peer pointers, whatever the size
//   NCCL alone                          one for each rank, by NCCL: what is copied stands between
//                                       two AllReduces of one element
//
// A launch begins when all ranks' streams have come to it.  With one graph, all of them go on
// behind all of it; otherwise each goes on behind its own.
//
// Threads. One at a time, with the launch lock held, but for idle() and the destructor.
#ifndef MP_CUDA_GRAPH_H_
#define MP_CUDA_GRAPH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mp/cuda/clique.h"
#include "mp/recording.h"

namespace mp::cuda {

class CudaGraph final : public CompiledGraph {
 public:
  explicit CudaGraph(std::shared_ptr<Clique> clique) : clique_(std::move(clique)) {}
  // Waits for the last launch.  Takes the launch lock.
  ~CudaGraph() override;

  // Once, before anything else.  `graphs` are its own from now on; number i is launched on streams
  // of device ordinals[i].
  absl::Status Adopt(std::vector<cudaGraphExec_t> graphs, const std::vector<int>& ordinals);

  size_t count() const { return graphs_.size(); }
  // Launches number i on this stream, and records end(i) behind it.
  absl::Status Launch(size_t i, cudaStream_t stream);
  cudaEvent_t end(size_t i) const { return ends_[i]; }

  bool idle() const override;

 private:
  const std::shared_ptr<Clique> clique_;
  std::vector<cudaGraphExec_t> graphs_;  // none any more where the Clique was aborted
  std::vector<cudaEvent_t> ends_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_GRAPH_H_
