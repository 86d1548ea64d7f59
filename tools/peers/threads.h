// Ranks that are threads of one process, for the programs beside this file.
#ifndef MP_TOOLS_PEERS_THREADS_H_
#define MP_TOOLS_PEERS_THREADS_H_

#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

namespace peers {

// A barrier that spins, and gives the core away where there are more threads than cores.
class Meeting {
 public:
  explicit Meeting(int threads)
      : threads_(threads),
        yields_(threads > static_cast<int>(std::thread::hardware_concurrency())) {}

  // The last one to come runs `body` before any goes on.
  template <typename Body>
  void Meet(const Body& body) {
    const unsigned phase = phase_.load(std::memory_order_relaxed);
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      come_.store(0, std::memory_order_relaxed);
      body();
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    while (phase_.load(std::memory_order_acquire) == phase) {
      if (yields_) sched_yield();
    }
  }

 private:
  const int threads_;
  const bool yields_;
  alignas(128) std::atomic<int> come_{0};
  alignas(128) std::atomic<unsigned> phase_{0};
};

class ThreadGroup {
 public:
  explicit ThreadGroup(int threads) : meeting_(threads) {}
  void Barrier() {
    meeting_.Meet([] {});
  }
  int FromFirst(int rank, int value) {
    if (rank == 0) value_ = value;
    Barrier();
    const int given = value_;
    Barrier();
    return given;
  }

 private:
  Meeting meeting_;
  int value_ = 0;
};

// body(0), body(1), ... each on a thread, kept to a core of its own where there are enough.
template <typename Body>
void OnThreads(int threads, const Body& body) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&body, i, pins = threads <= cores] {
      if (pins) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(i, &set);
        sched_setaffinity(0, sizeof set, &set);
      }
      body(i);
    });
  }
  for (std::thread& thread : all) thread.join();
}

}  // namespace peers

#endif  // MP_TOOLS_PEERS_THREADS_H_
