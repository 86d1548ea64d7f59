// The part of one operation that mp's own kernels and copies do: what to launch on which GPU.
//
// Kernels wait for nobody, so that any number of ranks may share a GPU; what orders them is events,
// before and after.  The *leader* of a GPU is the first of its ranks: on its stream stands the work
// of all of them.
//
// Threads. One at a time.
#ifndef MP_CUDA_DIRECT_H_
#define MP_CUDA_DIRECT_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "mp/cuda/device.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/operation.h"

namespace mp::cuda {

class Direct {
 public:
  // The ranks' devices, which outlive it.
  explicit Direct(std::vector<const Device*> devices);

  int gpus() const { return static_cast<int>(leaders_.size()); }
  // Whether each GPU's kernels reach the memory of all others.
  bool reaches_all() const { return reaches_all_; }

  // Forgets everything; keeps the memory.
  void Clear();
  void AddFold(const Descriptor& step, absl::Span<const Part> parts, bool sliced);
  void AddPush(const Push& push);

  // Whether something stands on the stream of `peer`; whether nothing does on any but the first's;
  // whether nothing does at all.
  bool works(size_t peer) const { return !work_[peer].empty(); }
  bool central() const;
  bool idle() const { return central() && !works(0); }

  // Launches it all.  The calling thread's current device is another one afterwards.
  absl::Status Launch(const Operation& operation) const;

 private:
  struct Work {
    std::vector<Fold> folds;
    std::vector<StridedCopy> copies;  // by kernels
    std::vector<Push> pushes;         // by copy engines
    bool empty() const { return folds.empty() && copies.empty() && pushes.empty(); }
  };

  absl::Status LaunchWork(const Work& work, cudaStream_t stream) const;

  const std::vector<const Device*> devices_;  // by peer
  std::vector<size_t> leaders_;               // by GPU
  std::vector<size_t> leader_of_;             // by peer
  bool reaches_all_ = true;
  std::vector<Work> work_;  // by peer
};

}  // namespace mp::cuda

#endif  // MP_CUDA_DIRECT_H_
