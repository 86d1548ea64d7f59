// The floating-point mode under which folds are what IEEE 754 says: round to nearest even,
// denormals kept, no traps.  A caller's thread may run in another one (-ffast-math sets it at
// program start).
//
//   {
//     ScopedStandardFpMode standard;
//     fold(inputs, n, outputs, m, begin, count, {});
//   }  // the caller's mode again
//
// Costs one register read where the mode is standard already, as it nearly always is.  The
// compiler does not know that arithmetic depends on the mode: call through a function pointer or
// into another translation unit inside the scope, as a FoldFn does.
//
// Threads. The mode is the calling thread's; create and destroy on one thread, nested in order.
#ifndef MP_HOST_KERNELS_FP_MODE_H_
#define MP_HOST_KERNELS_FP_MODE_H_

#include <cstdint>

namespace mp::host {

class ScopedStandardFpMode {
 public:
  // Sets the standard mode if flush-to-zero, denormals-are-zero, the rounding mode or the masks
  // of exceptions differ from it.  Does nothing on machines other than x86-64 and aarch64.
  ScopedStandardFpMode();

  // Restores the mode, with the exception flags as they were, if the constructor changed it.
  ~ScopedStandardFpMode();

  ScopedStandardFpMode(const ScopedStandardFpMode&) = delete;
  ScopedStandardFpMode& operator=(const ScopedStandardFpMode&) = delete;

 private:
  uint64_t saved_ = 0;
  bool changed_ = false;
};

}  // namespace mp::host

#endif  // MP_HOST_KERNELS_FP_MODE_H_
