// What all Regions of one World share: their fate, and their NCCL communicators, where there are
// any: one over all of its ranks, on which nothing ever runs, and those that Regions split from it.
//
// The first one is made by ncclCommInitAll with the World and is only there to be split, which NCCL
// allows while nothing is outstanding on it.  Regions of the same ranks in the same order share a
// split: their operations are issued one after the other anyway.  Splits stay until the World and
// all of its Regions are gone, then all communicators are destroyed in one NCCL group.
//
// Every communicator is warmed up before it is handed out, so that NCCL connects and allocates
// while nothing runs.
//
// Threads. Any number at once.
#ifndef MP_CUDA_CLIQUE_H_
#define MP_CUDA_CLIQUE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/device.h"

namespace mp::cuda {

class Clique {
 public:
  // One rank on each device; no GPU twice where there is to be NCCL.  `launch` is held while
  // anything is launched.  All outlive the Clique.
  static absl::StatusOr<std::shared_ptr<Clique>> Create(std::vector<Device*> devices,
                                                        bool uses_nccl, sync::Mutex& launch,
                                                        sync::Clock& clock);
  ~Clique();
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  bool uses_nccl() const { return uses_nccl_; }

  // The communicators of these ranks, in their order; none without NCCL.  Gone once Health is an
  // error.
  using Comms = std::vector<ncclComm_t>;
  absl::StatusOr<const Comms*> Split(const std::vector<int>& ranks);

  const std::vector<Device*>& devices() const { return devices_; }
  sync::Mutex& launch() { return launch_; }
  sync::Clock& clock() { return clock_; }

  // Graphs that call the communicators: NCCL frees none before they are gone, so Abort destroys
  // them first and empties the list.  With the launch lock held.
  void Hold(std::vector<cudaGraphExec_t>& graphs) { graphs_.insert(&graphs); }
  void LetGo(std::vector<cudaGraphExec_t>& graphs) { graphs_.erase(&graphs); }

  // Something that was issued has come to nothing because of `status`.
  void SetBroken(const absl::Status& status);
  // The first of that that is known already.
  absl::Status CheckNotBroken();
  // The same, with NCCL asked for asynchronous errors.
  absl::Status Health();
  // Aborts all communicators in one NCCL group, by the calling thread alone.  If another one does
  // not come back from a launch they are left as they are: freeing them under it would be worse.
  void Abort();

 private:
  Clique(std::vector<Device*> devices, bool uses_nccl, sync::Mutex& launch, sync::Clock& clock)
      : devices_(std::move(devices)), uses_nccl_(uses_nccl), launch_(launch), clock_(clock) {}

  // With launch_ held.
  absl::Status Open();
  absl::StatusOr<Comms> NewSplit(const std::vector<int>& ranks);
  absl::Status WarmUp(const Comms& comms, const std::vector<int>& ranks);

  bool LockLaunch();  // false where somebody keeps it for too long

  const std::vector<Device*> devices_;
  const bool uses_nccl_;
  sync::Mutex& launch_;
  sync::Clock& clock_;
  // Guarded by launch_.
  Comms whole_;
  std::map<std::vector<int>, Comms> splits_;
  std::set<std::vector<cudaGraphExec_t>*> graphs_;

  sync::Mutex mutex_;
  // Guarded by mutex_.
  Failure failure_;
  std::vector<ncclComm_t> watched_;  // all that are alive
};

}  // namespace mp::cuda

#endif  // MP_CUDA_CLIQUE_H_
