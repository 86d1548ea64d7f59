// The names of mp/base/sync.h for code that is explored.  A target that is built for that has this
// header included before all others, and the other one is then empty.
//
// Atomics, locks, waits and threads are those of the Engine that runs; each call is a point.
#ifndef MP_TESTS_EXPLORE_SYNC_H_
#define MP_TESTS_EXPLORE_SYNC_H_
#define MP_BASE_SYNC_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/explore/cell.h"
#include "tests/explore/engine.h"
#include "tests/explore/point.h"

namespace mp::sync {

using explore::Order;
using explore::Site;
inline constexpr auto kRelaxed = Order::kRelaxed;
inline constexpr auto kAcquire = Order::kAcquire;
inline constexpr auto kRelease = Order::kRelease;
inline constexpr auto kAcqRel = Order::kAcqRel;
inline constexpr auto kSeqCst = Order::kSeqCst;
inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kApartBytes = 128;

template <typename T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));

 public:
  Atomic() : Atomic(T()) {}
  Atomic(T value) : cell_(Bits(value)) {}  // NOLINT: as std::atomic

  T load(Order order = kSeqCst, Site site = Site::current()) const {
    Touch();
    return Value(cell_.Load(order, site));
  }
  void store(T value, Order order = kSeqCst, Site site = Site::current()) {
    Touch();
    cell_.Store(Bits(value), order, site);
  }
  T exchange(T value, Order order = kSeqCst, Site site = Site::current()) {
    Touch();
    return Value(
        cell_.Update([](uint64_t, uint64_t given) { return given; }, Bits(value), order, site));
  }
  T fetch_add(T value, Order order = kSeqCst, Site site = Site::current()) {
    Touch();
    return Value(cell_.Update(
        [](uint64_t old, uint64_t by) { return Bits(static_cast<T>(Value(old) + Value(by))); },
        Bits(value), order, site));
  }
  T fetch_sub(T value, Order order = kSeqCst, Site site = Site::current()) {
    Touch();
    return Value(cell_.Update(
        [](uint64_t old, uint64_t by) { return Bits(static_cast<T>(Value(old) - Value(by))); },
        Bits(value), order, site));
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure,
                               Site site = Site::current()) {
    return CompareExchange(expected, desired, success, failure, false, site);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure,
                             Site site = Site::current()) {
    return CompareExchange(expected, desired, success, failure, true, site);
  }
  explore::Cell& cell() { return cell_; }

 private:
  static uint64_t Bits(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static T Value(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  bool CompareExchange(T& expected, T desired, Order success, Order failure, bool may_fail,
                       const Site& site) {
    Touch();
    uint64_t bits = Bits(expected);
    const bool done = cell_.CompareExchange(bits, Bits(desired), success, failure, may_fail, site);
    expected = Value(bits);
    return done;
  }

  // That it was made before and is not gone is as much a matter of order as what plain memory
  // holds, so whoever checks that sees a read of it.
  void Touch() const { static_cast<void>(made_); }

  explore::Cell cell_;
  volatile bool made_ = true;
};

void Yield(Site site = Site::current());
inline void Pause(Site site = Site::current()) { Yield(site); }
// Where every look is a point, a few of them are as good as many.
constexpr int Looks(int count) { return std::min(count, 2); }
uint64_t Cycles();
void Wake(Atomic<uint32_t>& word, int count = 1 << 30, Site site = Site::current());

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock(Site site = Site::current());
  bool TryLock(Site site = Site::current());
  void Unlock(Site site = Site::current());

 private:
  explore::LockState state_;
};

class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex, Site site = Site::current()) : mutex_(mutex), site_(site) {
    mutex_.Lock(site);
  }
  ~MutexLock() { mutex_.Unlock(site_); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
  const Site site_;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Duration Now() = 0;
  virtual bool Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) = 0;
  // The Engine's.
  static Clock& Steady();
};

class Thread {
 public:
  Thread() = default;
  static absl::StatusOr<Thread> Start(std::string name, std::function<void()> body);
  Thread(Thread&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Thread& operator=(Thread&& other);
  ~Thread() { Join(); }
  void Join();
  bool joinable() const { return id_ >= 0; }

 private:
  int id_ = -1;
};

uint64_t ThisThread();
uint32_t ThisCore();
void*& ThreadPointer();
// Nobody forks here.
struct NoForks {
  template <typename Any>
  uint32_t load(Any) const {
    return 0;
  }
};
inline constexpr NoForks fork_count;
inline uint32_t CountForks() { return 0; }
int CoreCount();
void LimitCores(int count);

}  // namespace mp::sync

#include "mp/base/signal-inl.h"

#endif  // MP_TESTS_EXPLORE_SYNC_H_
