// The contract suite on the host backend, run by the threads that call and wait.

#include "tests/host/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() { return HostUnderTest("host, inline", host::Execution::kInline); }

}  // namespace mp::test
