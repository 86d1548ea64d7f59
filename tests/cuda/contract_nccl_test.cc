// The contract suite where NCCL does all reductions.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() {
  return CudaUnderTest(
      {.name = "cuda, NCCL alone", .runs_unwatched = false, .transport = cuda::Transport::kNccl});
}

}  // namespace mp::test
