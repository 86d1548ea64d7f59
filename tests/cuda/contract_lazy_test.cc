// The contract suite on the CUDA backend over the fakes, whose streams go on only as far as
// somebody looks: queues grow, and what runs when differs the most.

#include "tests/cuda/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() { return CudaUnderTest("cuda over lazy fakes", false); }

}  // namespace mp::test
