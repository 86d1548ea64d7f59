// The contract suite on the host backend, run in a seeded order by the threads that wait.

#include "tests/host/under_test.h"

namespace mp::test {

BackendUnderTest ThisBackend() { return HostUnderTest("host, seeded", host::Execution::kSeeded); }

}  // namespace mp::test
