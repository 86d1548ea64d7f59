// A function with its own stack, which its starter and it itself can leave and enter again.
//
//   Fiber fiber;
//   fiber.Start([&] { work(); fiber.Yield(); more_work(); });
//   fiber.Resume();  // until work() is done
//   fiber.Resume();  // to the end: fiber.done()
//
// Threads.   Resumed by the thread that started it.
// Ownership. The stack stays for the next Start.  Destroyed when it is done, or never started.
#ifndef MP_TESTS_SUPPORT_FIBER_H_
#define MP_TESTS_SUPPORT_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace mp::test {

class Fiber {
 public:
  explicit Fiber(size_t stack_bytes = size_t{64} << 10);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Resume will begin it.
  void Start(std::function<void()> run);
  // Goes on with it until it yields or ends.
  void Resume();
  // Within it: back to who resumed it.
  void Yield();
  bool done() const { return done_; }

 private:
  static void Main(unsigned high, unsigned low);

  static constexpr int kStartsOfAShadow = 1000;

  const size_t stack_bytes_;
  const std::unique_ptr<char[]> stack_;
  std::function<void()> run_;
  bool done_ = true;
  ucontext_t inside_{};
  ucontext_t outside_{};
  // What the sanitizers want to know of a stack.
  void* shadow_inside_ = nullptr;
  void* shadow_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
  int starts_ = 0;
};

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_FIBER_H_
