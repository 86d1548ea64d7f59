// Runs what is ready: strands (streams with something to do) and the pieces of large jobs, on a
// pool of threads, on threads that wait, or one by one in a seeded order.
//
// Threads. Any number at once, but for what a class says itself.
#ifndef MP_HOST_EXECUTOR_H_
#define MP_HOST_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"
#include "mp/host/backend.h"

namespace mp::host {

// Something that runs for a short while when it is its turn.  Not submitted twice at a time.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual void Run() = 0;
};

// Work cut into pieces that may run side by side, in any order.
class Job {
 public:
  virtual ~Job() = default;
  virtual void RunPiece(int64_t piece) = 0;
  // Called once, by whoever ran the last piece.  The job may be gone afterwards.
  virtual void Finish() = 0;

 private:
  friend class Executor;
  // Guarded by the Executor's mutex.  Lane l has pieces [next[l], end[l]); a thread begins with
  // its core's lane, so that the same slice of memory meets the same core again.
  std::vector<int64_t> next_, end_;
  int64_t unclaimed_ = 0;
  int64_t running_ = 0;
};

class Executor {
 public:
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Options& options);
  ~Executor();

  // Whether the thread that makes something ready may run it at once.
  bool runs_at_once() const { return execution_ != Execution::kSeeded; }
  // Whether strands stop after every piece of work, to let another one be chosen.
  bool steps_singly() const { return execution_ == Execution::kSeeded; }
  bool has_threads() const { return !threads_.empty(); }
  int lanes() const { return lanes_; }

  void Submit(Runnable& runnable);
  // Offers pieces 0..pieces-1 to all threads; pieces > 0.
  void Share(Job& job, int64_t pieces);
  // Runs pieces on the calling thread until all are taken, and offers them to threads that are
  // awake. True where it has run the last one to end: then Finish is not called.
  bool ShareAndHelp(Job& job, int64_t pieces);

  // Runs one thing that is ready on the calling thread, which has called EnterWait; false where
  // there is none.
  bool HelpOnce();

  // Where threads sleep when no thread of the Executor's own would run what becomes ready.
  sync::Signal& signal() { return signal_; }

  // A thread that waits says so while it is awake and looks for work.  What was submitted in
  // trust of a thread that then leaves is passed on to another one.
  void EnterWait() { awake_.fetch_add(1, sync::kSeqCst); }
  // But for the other pieces of a job of which it takes one, with a driver for each core: a pool
  // thread would stand in the way of one of those.
  void LeaveWait(bool only_its_job_is_left = false) {
    awake_.fetch_sub(1, sync::kSeqCst);
    if (only_its_job_is_left && drivers_.load(sync::kRelaxed) >= lanes_) return;
    if (size_.load(sync::kSeqCst) != 0) WakeOne();
  }
  // Threads that drive a stream have come or gone.  They will help when they wait.
  void AddDriver(int count) { drivers_.fetch_add(count, sync::kRelaxed); }
  bool somebody_waits_awake() const { return awake_.load(sync::kSeqCst) > 0; }
  // Whether more threads wait awake than there are cores to do so.
  bool crowded() const { return awake_.load(sync::kRelaxed) > lanes_; }

 private:
  explicit Executor(const Options& options);
  void ThreadMain();
  // These need mutex_.
  void Offer(Job& job, int64_t pieces);
  int64_t ClaimPiece(Job& job);
  void WakeOne();

  const Execution execution_;
  const int lanes_;
  sync::Mutex mutex_;
  RingQueue<Runnable*> ready_;     // guarded by mutex_
  std::vector<Job*> jobs_;         // with unclaimed pieces; guarded by mutex_
  std::mt19937_64 random_;         // guarded by mutex_
  sync::Atomic<int64_t> size_{0};  // of ready_ and jobs_ together
  sync::Atomic<int> awake_{0};
  sync::Atomic<int> drivers_{0};
  sync::Atomic<bool> stopping_{false};
  sync::Signal signal_;
  std::vector<sync::Thread> threads_;
};

// A thread that waits, awake.
class AwakeWait {
 public:
  explicit AwakeWait(Executor& executor) : executor_(executor) { executor_.EnterWait(); }
  ~AwakeWait() { executor_.LeaveWait(); }
  AwakeWait(const AwakeWait&) = delete;
  AwakeWait& operator=(const AwakeWait&) = delete;

 private:
  Executor& executor_;
};

// How a thread waits that may help: spins for at most 100 us, less where others want the core.
class Patience {
 public:
  // Called between two looks; false when it is time to sleep.
  bool Spin(const Executor& executor);
  void Reset() { spins_ = 0; }

 private:
  int spins_ = 0;
};

}  // namespace mp::host

#endif  // MP_HOST_EXECUTOR_H_
