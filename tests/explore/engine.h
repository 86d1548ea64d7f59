// One run of threads of which exactly one goes on at a time, as a strategy says at each point.
//
//   Engine engine(*strategy, /*points=*/12);
//   engine.Run([] { ... sync::Thread::Start(...) ... });
//   if (!engine.failure().empty()) ...
//
// Threads of the run are fibers of the calling thread, so a run is a function of its choices.
// Time stands still until all of them wait.
//
// Ownership. What the threads of a failed run had is leaked where they could not be brought to
//            their end.
#ifndef MP_TESTS_EXPLORE_ENGINE_H_
#define MP_TESTS_EXPLORE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/explore/point.h"
#include "tests/explore/strategy.h"
#include "tests/support/fiber.h"

namespace mp::explore {

// Code of the explorer, whose accesses to memory are nobody's.
class Quiet {
 public:
  Quiet() { on_ = true; }
  ~Quiet() { on_ = before_; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

  static bool on() { return on_; }

 private:
  friend class Engine;
  static inline bool on_ = true;
  const bool before_ = on_;
};

struct LockState {
  int holder = -1;
  VectorClock released;
};

class Engine {
 public:
  // `points`: how many of each thread count, from OpenWindow on; 0 for all, from the beginning.
  Engine(Strategy& strategy, int points);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void Run(std::function<void()> body);
  // Empty where nothing was wrong.
  const std::string& failure() const { return failure_; }
  uint64_t steps() const { return steps_; }
  // Every operation, a line each, while the run lasts.
  void set_prints(bool prints) { prints_ = prints; }

  // The one that runs; null outside of runs.
  static Engine* Current();

  // For the threads of the run.

  // A number of its own.
  uint64_t run() const { return run_; }

  // Whoever is to go on does so; returns when it is the calling thread's turn to do this.
  void Point(OpKind kind, const void* object, const Site& site);
  int Choose(int count, Choice choice) { return strategy_.Choose(count, choice, counts_); }
  int self() const { return current_; }
  const std::string& NameOf(int thread) const {
    return threads_[static_cast<size_t>(thread)]->name;
  }
  VectorClock& clock() { return threads_[static_cast<size_t>(current_)]->clock; }
  void*& pointer() { return threads_[static_cast<size_t>(current_)]->pointer; }
  int Start(std::string name, std::function<void()> body);
  void Join(int thread, const Site& site);
  // After a Point of kind kWait.  False where the time ran out.
  bool Sleep(const void* word, absl::Duration timeout, const Site& site);
  void WakeSleepers(const void* word, int count);
  absl::Duration Now() const { return now_; }
  uint64_t Cycles() { return ++cycles_; }
  void OpenWindow();
  // The points of the calling thread count, and from then on only those of threads that said so.
  void CountPoints();
  // Whether the run is like another one, and only to be brought to its end.
  bool redundant() const { return strategy_.redundant(); }
  // The first one counts.
  void Fail(const std::string& what);

 private:
  struct Thread {
    std::string name;
    std::unique_ptr<test::Fiber> fiber;
    Op next;
    VectorClock clock;
    bool counts = false;
    bool done = false;
    bool awake = true;  // or woken
    bool timed_out = false;
    absl::Duration deadline;
    uint64_t changes_seen = 0;  // when it yielded
    uint64_t yielded_at = 0;
    int points_left = 0;
    void* pointer = nullptr;
    void* exceptions[2] = {};  // those that it is about to throw or has caught
  };
  struct Past {
    int thread;
    Op op;
  };

  bool Counts(const Thread& thread) const {
    return open_ && (points_ == 0 || thread.points_left > 0) && (thread.counts || !some_count_);
  }
  // -1 where nobody can go on, now or later.
  int Pick();
  bool CanGoOn(const Thread& thread) const;
  bool PassTime();
  void Resume(int thread);
  void Note(int thread);
  std::string Describe() const;
  std::unique_ptr<test::Fiber> TakeFiber();

  Strategy& strategy_;
  const int points_;
  bool open_;
  bool some_count_ = false;  // not all threads
  bool prints_ = false;
  bool counts_ = false;  // the operation that is on
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Op> ops_;  // by thread, for the strategy
  uint64_t run_ = 0;
  size_t ended_ = 0;
  int current_ = -1;
  int picked_ = -1;
  uint64_t steps_ = 0;
  uint64_t changes_ = 0;
  uint64_t changes_before_ = 0, idle_rounds_ = 0;  // picks since something has changed
  uint64_t cycles_ = 0;
  absl::Duration now_;
  std::string failure_;
  std::vector<Past> past_;  // a ring
};

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_ENGINE_H_
