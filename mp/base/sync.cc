#include "mp/base/sync.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <system_error>

#include "mp/base/check.h"
#include "mp/base/status.h"

namespace mp::sync {
namespace {

// A lock is held for tens of nanoseconds, so a waiter gives up spinning only when the holder
// seems to have lost its core.
constexpr int kLockSpins = 200;

long Futex(Atomic<uint32_t>& word, int op, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), op | FUTEX_PRIVATE_FLAG, value,
                 timeout, nullptr, 0);
}

class SteadyClock : public Clock {
 public:
  absl::Duration Now() override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return absl::DurationFromTimespec(now);
  }
  bool Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) override {
    if (timeout <= absl::ZeroDuration()) return word.load(kAcquire) != seen;
    // The kernel refuses absurd times; a day is as good as for ever to a loop that looks again.
    const timespec limit = absl::ToTimespec(std::min(timeout, absl::Hours(24)));
    const long result = Futex(word, FUTEX_WAIT, seen, &limit);
    return !(result == -1 && errno == ETIMEDOUT);
  }
};

}  // namespace

void Yield() { sched_yield(); }

void Wake(Atomic<uint32_t>& word, int count) {
  Futex(word, FUTEX_WAKE, static_cast<uint32_t>(count), nullptr);
}

void Mutex::LockSlow() {
  for (int i = 0; i < kLockSpins; ++i) {
    if (word_.load(kRelaxed) == 0 && TryLock()) return;
    Pause();
  }
  while (word_.exchange(kContended, kAcquire) != 0) Futex(word_, FUTEX_WAIT, kContended, nullptr);
}

Clock& Clock::Steady() {
  static SteadyClock clock;
  return clock;
}

bool FakeClock::Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) {
  if (word.load(kAcquire) != seen) return true;
  MP_CHECK(timeout != absl::InfiniteDuration());
  now_ += timeout;
  return false;
}

absl::StatusOr<Thread> Thread::Start(std::string name, std::function<void()> body) {
  Thread thread;
  thread.forks_ = CountForks();
  try {
    thread.thread_ = std::thread([name = name.substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
  } catch (const std::system_error& error) {
    return MakeError(ErrorKind::kDeviceError,
                     absl::StrCat("cannot start thread ", name, ": ", error.what()));
  }
  return thread;
}

Thread& Thread::operator=(Thread&& other) {
  Join();
  forks_ = other.forks_;
  thread_ = std::move(other.thread_);
  return *this;
}

// A child process does not have it.
void Thread::Join() {
  if (!thread_.joinable()) return;
  if (forks_ == fork_count.load(kRelaxed)) return thread_.join();
  static_cast<void>(new std::thread(std::move(thread_)));
}

namespace {
Atomic<uint64_t> next_thread{1};
}  // namespace

uint64_t ThisThread() {
  thread_local const uint64_t id = next_thread.fetch_add(1, kRelaxed);
  return id;
}

void*& ThreadPointer() {
  thread_local void* pointer = nullptr;
  return pointer;
}

uint32_t ThisCore() { return static_cast<uint32_t>(std::max(0, sched_getcpu())); }

constinit Atomic<uint32_t> fork_count{0};

uint32_t CountForks() {
  static const int watched =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, kRelaxed); });
  MP_CHECK(watched == 0);
  return fork_count.load(kRelaxed);
}

int CoreCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void LimitCores(int count) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set) && --count < 0) CPU_CLR(core, &set);
  }
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace mp::sync
