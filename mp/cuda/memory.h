// Whose the memory is that operations are given, and which GPUs reach it.
//
// Memory of cudaMalloc is reached by every GPU that has access to its GPU, once that is enabled.
// Memory of a pool (cudaMallocAsync) or a mapping (cuMemMap) is reached by those only that its
// owner has named; a kernel of any other one faults, and CUDA is lost to the process.
//
// Threads. Any number at once.
#ifndef MP_CUDA_MEMORY_H_
#define MP_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mp/base/sync.h"

namespace mp::cuda {

// What Devices have allocated, all of it by cudaMalloc: nothing needs to be asked about it.
class Allocations {
 public:
  static Allocations& All();

  void Add(const void* data, size_t bytes, int ordinal);
  void Remove(const void* data);
  // CUDA's number of the GPU; -1 for what is somebody else's.
  int OwnerOf(const void* data);

 private:
  struct Allocation {
    uintptr_t end = 0;
    int ordinal = -1;
  };
  sync::Mutex mutex_;
  std::map<uintptr_t, Allocation> by_address_;  // guarded by mutex_
};

// CUDA's number of the GPU that has the memory at `data`.  InvalidArgument ("is no memory of a
// GPU"): none has.
absl::StatusOr<int> OwnerOf(const void* data);

// Those of the GPUs `ordinals`, all with access to the memory's GPU, that the memory at `data` is
// closed to, as far as the driver can tell.
std::vector<int> ClosedTo(const void* data, absl::Span<const int> ordinals);
// The allocation around it: "0x7f0000000000 to 0x7f0000200000"; "" where the driver cannot tell.
std::string RangeOf(const void* data);

}  // namespace mp::cuda

#endif  // MP_CUDA_MEMORY_H_
