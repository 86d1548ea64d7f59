// The contract suite where GPUs do not reach each other's memory, and NCCL does it all.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() {
  return CudaUnderTest({.name = "cuda, NCCL alone",
                        .runs_unwatched = false,
                        .transport = cuda::Transport::kNccl,
                        .peers = false});
}

}  // namespace mp::test
