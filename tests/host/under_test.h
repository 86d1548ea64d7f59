// The host backend for the contract suite.
#ifndef MP_TESTS_HOST_UNDER_TEST_H_
#define MP_TESTS_HOST_UNDER_TEST_H_

#include "mp/host/backend.h"
#include "tests/contract/backend_under_test.h"

namespace mp::test {

// `execution` is how applications would run it; the seeded tests have a schedule of their own.
inline BackendUnderTest HostUnderTest(const char* name, host::Execution execution) {
  return {.name = name,
          .make =
              [execution](const Setup& setup) {
                return host::NewBackend(
                    {.devices = setup.devices,
                     .execution = setup.seeded ? host::Execution::kSeeded : execution,
                     .seed = setup.seed,
                     .clock = setup.clock});
              },
          .runs_unwatched = execution == host::Execution::kPool};
}

}  // namespace mp::test

#endif  // MP_TESTS_HOST_UNDER_TEST_H_
