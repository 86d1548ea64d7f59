// The contract suite with all ranks on one GPU.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() {
  return CudaUnderTest({.name = "cuda, one GPU", .transport = cuda::Transport::kDirect, .gpus = 1});
}

}  // namespace mp::test
