// The only door to threads, locks, atomics, waiting and time.  Everything in mp that meets another
// thread is written against this header and nothing beside it, so that a second implementation
// of the same names can run the same code under a scheduler that explores interleavings.
//
//   sync::MutexLock lock(mutex_);
//   if (word.load(std::memory_order_acquire) == seen) clock.Wait(word, seen, absl::Seconds(1));
//
// Locks spin for a moment before they sleep: what they guard takes tens of nanoseconds.
#ifndef MP_BASE_SYNC_H_
#define MP_BASE_SYNC_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mp::sync {

template <typename T>
using Atomic = std::atomic<T>;
inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;
inline constexpr auto kAcqRel = std::memory_order_acq_rel;
inline constexpr auto kSeqCst = std::memory_order_seq_cst;

// The size of what one core takes from another at a time: two cache lines, because of the
// prefetcher that fetches them in pairs.
inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kApartBytes = 128;

// Tells the core that this is a waiting loop.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Lets another thread have the core.
void Yield();

// How often a waiting loop is to look before it sleeps; fewer times where schedules are explored.
constexpr int Looks(int count) { return count; }

// The core's counter of cycles of one constant rate, for times that are taken often: a few
// nanoseconds, and a clock's reading takes ten times as long.
inline uint64_t Cycles() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t cycles;
  asm volatile("mrs %0, cntvct_el0" : "=r"(cycles));
  return cycles;
#endif
}

// Wakes up to `count` threads that wait on `word`.
void Wake(Atomic<uint32_t>& word, int count = 1 << 30);

// Not recursive, not fair, 4 bytes.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() {
    uint32_t free = 0;
    if (!word_.compare_exchange_strong(free, kHeld, kAcquire, kRelaxed)) LockSlow();
  }
  bool TryLock() {
    uint32_t free = 0;
    return word_.compare_exchange_strong(free, kHeld, kAcquire, kRelaxed);
  }
  void Unlock() {
    if (word_.exchange(0, kRelease) == kContended) Wake(word_, 1);
  }

 private:
  static constexpr uint32_t kHeld = 1, kContended = 2;
  void LockSlow();
  Atomic<uint32_t> word_{0};
};

class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Time that only goes forward, and waiting in it.
class Clock {
 public:
  virtual ~Clock() = default;

  // Time since some fixed moment.
  virtual absl::Duration Now() = 0;

  // Sleeps while `word` is `seen`, at most for `timeout`; may return early for no reason.  False
  // where the time ran out.
  virtual bool Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) = 0;

  // The machine's own steady clock.  It lives as long as the process.
  static Clock& Steady();
};

// A clock for programs of one thread: nobody else could end a wait, so a wait moves the time
// forward by its timeout and returns.  A wait without a timeout ends the process.
class FakeClock : public Clock {
 public:
  absl::Duration Now() override { return now_; }
  bool Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) override;
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Duration now_ = absl::ZeroDuration();
};

// A joining thread with a name.
class Thread {
 public:
  Thread() = default;
  // DeviceError where the system has no thread to give.
  static absl::StatusOr<Thread> Start(std::string name, std::function<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other);
  ~Thread() { Join(); }
  void Join();
  bool joinable() const { return thread_.joinable(); }

 private:
  uint32_t forks_ = 0;
  std::thread thread_;
};

// A number that tells the calling thread from all others that live; never 0.
uint64_t ThisThread();

// The core that the calling thread is on, as far as that can be told: it may move at any time.
uint32_t ThisCore();

// A pointer of the calling thread's own, null at first.
void*& ThreadPointer();

// How often fork() has been called on the way from the first process that counted to this one.
extern Atomic<uint32_t> fork_count;
// Counts from now on, and tells the count.
uint32_t CountForks();

// The number of cores that this process may run on.
int CoreCount();

// Keeps the calling thread, and threads that it makes from now on, to the first `count` of the
// cores that it may run on.
void LimitCores(int count);

}  // namespace mp::sync

#include "mp/base/signal-inl.h"

#endif  // MP_BASE_SYNC_H_
