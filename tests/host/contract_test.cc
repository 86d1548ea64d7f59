// The contract suite on the host backend, with the pool of threads.

#include "tests/host/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() { return HostUnderTest("host, pool", host::Execution::kPool); }

}  // namespace mp::test
