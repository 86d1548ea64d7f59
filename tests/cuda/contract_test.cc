// The contract suite on the CUDA backend over the fakes, whose streams run by themselves.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() { return CudaUnderTest({.name = "cuda over fakes"}); }

}  // namespace mp::test
