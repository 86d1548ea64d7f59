#include "tests/support/fiber.h"

#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace mp::test {

Fiber::Fiber(size_t stack_bytes) : stack_bytes_(stack_bytes), stack_(new char[stack_bytes]) {
#if defined(__SANITIZE_THREAD__)
  shadow_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(shadow_inside_);
#endif
}

void Fiber::Start(std::function<void()> run) {
  run_ = std::move(run);
  done_ = false;
#if defined(__SANITIZE_THREAD__)
  // A function that ends here never returns, so the sanitizer's stack of calls only grows.
  if (++starts_ % kStartsOfAShadow == 0) {
    __tsan_destroy_fiber(shadow_inside_);
    shadow_inside_ = __tsan_create_fiber(0);
  }
#endif
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = stack_bytes_;
  inside_.uc_link = nullptr;
  const auto self = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));
  // makecontext hands over nothing but int.
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Main), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Fiber::Main(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>((uint64_t{high} << 32) | low));
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self->shadow_inside_, &self->outside_stack_,
                                  &self->outside_bytes_);
#endif
  self->run_();
  self->done_ = true;
  self->Yield();
}

void Fiber::Resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&shadow_outside_, stack_.get(), stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  shadow_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(shadow_inside_, 0);
#endif
  swapcontext(&outside_, &inside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow_outside_, nullptr, nullptr);
#endif
}

void Fiber::Yield() {
#if defined(__SANITIZE_ADDRESS__)
  // Also at the end: what the sanitizer keeps of the stack serves the next Start.
  __sanitizer_start_switch_fiber(&shadow_inside_, outside_stack_, outside_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(shadow_outside_, 0);
#endif
  swapcontext(&inside_, &outside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow_inside_, &outside_stack_, &outside_bytes_);
#endif
}

}  // namespace mp::test
