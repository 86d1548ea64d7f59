// The contract suite with ranks that take turns on two GPUs, so that some share and some do not.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() {
  return CudaUnderTest({.name = "cuda, two GPUs",
                        .runs_unwatched = false,
                        .transport = cuda::Transport::kDirect,
                        .gpus = 2});
}

}  // namespace mp::test
