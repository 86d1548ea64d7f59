// MP_CHECK(condition) << nothing: ends the process with file, line and condition where mp itself
// is broken.  Errors of callers and of the world outside are absl::Status, never this.
#ifndef MP_BASE_CHECK_H_
#define MP_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace mp::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: mp is broken: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace mp::internal

#define MP_CHECK(condition)                                                                        \
  (__builtin_expect(!(condition), 0) ? ::mp::internal::CheckFailed(__FILE__, __LINE__, #condition) \
                                     : static_cast<void>(0))

#endif  // MP_BASE_CHECK_H_
