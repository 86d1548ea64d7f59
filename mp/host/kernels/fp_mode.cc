#include "mp/host/kernels/fp_mode.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mp::host {
namespace {

#if defined(__x86_64__)

constexpr uint64_t kFlags = 0x003F;     // sticky, set by any inexact sum
constexpr uint64_t kStandard = 0x1F80;  // all exceptions masked, to nearest even, FTZ and DAZ off

uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }

#elif defined(__aarch64__)

// FPCR has the flags elsewhere.  AHP, DN, FZ, RMode and FZ16, and the traps.
constexpr uint64_t kFlags = ~uint64_t{0x07C89F00};
constexpr uint64_t kStandard = 0;

uint64_t ReadMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }

#else

constexpr uint64_t kFlags = 0;
constexpr uint64_t kStandard = 0;

uint64_t ReadMode() { return kStandard; }
void WriteMode(uint64_t) {}

#endif

}  // namespace

ScopedStandardFpMode::ScopedStandardFpMode() : saved_(ReadMode()) {
  if ((saved_ & ~kFlags) != kStandard) {
    WriteMode((saved_ & kFlags) | kStandard);
    changed_ = true;
  }
}

ScopedStandardFpMode::~ScopedStandardFpMode() {
  if (changed_) WriteMode(saved_);
}

}  // namespace mp::host
