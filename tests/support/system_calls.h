// Counts the system calls of all threads of this process, by a filter of the kernel's (seccomp)
// that turns each call into a signal whose handler counts it and makes it.
//
//   if (!CountSystemCalls()) return;              // for the rest of the process
//   const SystemCalls before = SystemCallsSoFar();
//   ...
//   EXPECT_EQ(SystemCallsSoFar() - before, SystemCalls());
//
// x86-64.  Reading the clock is no call where the kernel maps it, and is not counted where it is.
// From then on no thread can be made, and none can end but by _exit.
#ifndef MP_TESTS_SUPPORT_SYSTEM_CALLS_H_
#define MP_TESTS_SUPPORT_SYSTEM_CALLS_H_

#include <cstdint>
#include <string>

namespace mp::test {

struct SystemCalls {
  int64_t all = 0;
  int64_t waits = 0;  // futex waits
  int64_t wakes = 0;  // futex wakes
  int64_t yields = 0;

  SystemCalls operator-(const SystemCalls& other) const {
    return {all - other.all, waits - other.waits, wakes - other.wakes, yields - other.yields};
  }
  bool operator==(const SystemCalls&) const = default;
};

std::string ToString(const SystemCalls& calls);

// False where the kernel has no such filter.
bool CountSystemCalls();
SystemCalls SystemCallsSoFar();

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_SYSTEM_CALLS_H_
