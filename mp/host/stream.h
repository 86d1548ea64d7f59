// A stream of the host: a strand, that is a queue whose work is run by one thread at a time, though
// not always by the same one.
//
// `state_` counts what was ever submitted (upper 44 bits) and what of it is not done (lower 20).
// Who raises the lower count from 0 owns the strand until he brings it back to 0; the owner alone
// runs its work.  Work that must wait (for an event, or in its place of an operation) is left as it
// is, and the ownership goes to whoever ends the wait, who calls Resume.  So no thread ever blocks
// inside a strand, and position p of an Event is passed when submitted - pending >= p.
//
// Threads. Any number submit; the owner runs.
#ifndef MP_HOST_STREAM_H_
#define MP_HOST_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"
#include "mp/host/executor.h"
#include "mp/host/memory.h"
#include "mp/stream.h"

namespace mp::host {

class HostOperation;
class HostStream;

// Strands that the running thread owns and has still to run: what would be recursion otherwise.
class Strands {
 public:
  void Push(HostStream& stream);
  HostStream* Pop();

 private:
  HostStream* first_ = nullptr;
  HostStream** last_ = &first_;
};

class HostStream : public Stream, private Runnable {
 public:
  HostStream(Executor& executor, Memory& memory, sync::Clock& clock, int device);
  ~HostStream() override;

  // Takes the strand over if it is idle; the caller then owns it and one piece of work that it runs
  // itself and ends with Resume.
  bool TryOwn() {
    uint64_t state = state_.load(sync::kRelaxed);
    return Pending(state) == 0 && state_.compare_exchange_strong(state, state + kOneSubmitted,
                                                                 sync::kAcqRel, sync::kRelaxed);
  }
  // Queues the place of `peer` in an operation; true where the caller now owns the strand.
  bool PushPlace(HostOperation& operation, int peer);
  // Queue what a graph runs, in the same way: a kernel that outlives it; a wait for an event of a
  // host stream; the end of the list of `peer`.
  bool PushCompute(const Kernel& kernel);
  bool PushWait(const Event& event);
  bool PushEnd(HostOperation& launch, int peer);
  // The work that the owner has is done; what is behind it goes on in `strands`, or on another
  // thread.
  void Resume(Strands& strands);
  // The same for a caller that can run nothing itself.
  void ResumeElsewhere();
  // Gives an owned strand, with work in its queue, to the Executor.
  void SubmitOwned() { executor_.Submit(*this); }
  // Runs owned strands until none is left that this thread may run.  Where `may_compute` is not
  // set, user compute is given to other threads; where it is, this thread computes for one strand
  // and gives the others away.
  static void RunAll(Strands& strands, bool may_compute);

  // Copy and Scale as kernels.
  static Kernel NewCopy(const TensorView& source, const TensorView& target);
  static Kernel NewScale(const TensorView& source, const TensorView& target, double factor);

  Event Here() { return Event{this, Submitted(state_.load(sync::kAcquire))}; }

 private:
  friend class Strands;

  struct Work {
    enum class Kind { kCompute, kWait, kPlace, kEnd };
    Kind kind = Kind::kCompute;
    int peer = 0;
    HostOperation* operation = nullptr;
    Event event;
    const Kernel* kernel = nullptr;
    std::unique_ptr<Kernel> owned;  // the kernel, unless it is a graph's
  };
  struct Waiter {
    uint64_t position;
    HostStream* stream;  // null for a thread that sleeps
  };

  static constexpr uint64_t kPendingBits = 20;
  static constexpr uint64_t kPendingMask = (uint64_t{1} << kPendingBits) - 1;
  static constexpr uint64_t kOneSubmitted = (uint64_t{1} << kPendingBits) + 1;
  static constexpr uint64_t kMostPending = kPendingMask / 2;
  static constexpr uint64_t kNoPosition = ~uint64_t{0};
  static uint64_t Pending(uint64_t state) { return state & kPendingMask; }
  static uint64_t Submitted(uint64_t state) { return state >> kPendingBits; }
  static bool Passed(uint64_t state, uint64_t position) {
    return Ahead(Submitted(state) - Pending(state), position) >= 0;
  }
  // How far `position` is ahead of `other`: they count modulo 2^44.
  static int64_t Ahead(uint64_t position, uint64_t other) {
    return static_cast<int64_t>((position - other) << kPendingBits);
  }

  absl::Status DoLaunch(Kernel kernel) override;
  absl::Status DoCopy(const TensorView& source, const TensorView& target) override;
  absl::Status DoScale(const TensorView& source, const TensorView& target, double factor) override;
  Event DoRecord() override { return Here(); }
  absl::Status DoWait(const Event& event) override;
  bool DoQuery(uint64_t position) const override;
  bool DoHasPassed(uint64_t position) override { return DoQuery(position); }
  absl::StatusOr<bool> DoBlock(uint64_t position, absl::Duration timeout) override;
  NativeStream DoNative() const override { return NativeStream{nullptr, device_}; }

  void Run() override;  // as a Runnable: takes its turn
  bool Push(Work work);
  // One piece of work is done; true where more is there, and then the caller still owns the
  // strand.  Otherwise the stream may be gone when it returns.
  bool Finish(Strands* strands);
  void RunOwned(Strands& strands, bool may_compute);
  bool RunOne(Work work, Strands& strands);  // false where the strand is left waiting
  void Compute(const Kernel& kernel);
  void RunKernel(const Kernel& kernel);
  [[gnu::cold]] void RecordKernel(const Kernel& kernel);  // runs it, and leaves its Span
  absl::Status DoCheckRoom() const override;
  void DoDriven(bool driven) override { executor_.AddDriver(driven ? 1 : -1); }
  void DoAppendAwaited(uint64_t position, std::vector<Event>& events) override;
  // Registers `stream` to be resumed at `position`, or a sleeper to be woken there; false where
  // that is passed already.
  bool AddWaiter(uint64_t position, HostStream* stream);
  void RemoveSleeper(uint64_t position);
  void SetNextAwaited();  // needs mutex_
  void SetAwaited(const Event& event);
  void ResumeWaiters(Strands* strands);
  bool HelpOnce();
  bool SpinUntil(uint64_t position, bool helps);
  // Once, for at most `timeout`: what wakes it may be another's.
  void SleepUntil(uint64_t position, uint32_t seen, absl::Duration timeout);
  sync::Signal& signal() { return executor_.has_threads() ? signal_ : executor_.signal(); }

  Executor& executor_;
  Memory& memory_;
  sync::Clock& clock_;
  const int device_;
  HostStream* next_ = nullptr;  // in Strands; the owner's
  bool ends_its_wait_ = false;  // the owner's: what it waited for has come
  alignas(sync::kApartBytes) sync::Atomic<uint64_t> state_{0};
  sync::Atomic<uint64_t> next_awaited_{kNoPosition};  // the first of waiters_
  sync::Signal signal_;
  sync::Atomic<uint64_t> finished_{0};  // calls of Finish that look at the stream no more
  alignas(sync::kApartBytes) sync::Mutex mutex_;
  RingQueue<Work> queue_;        // guarded by mutex_
  size_t queued_waits_ = 0;      // of the kind kWait in queue_; guarded by mutex_
  std::vector<Waiter> waiters_;  // guarded by mutex_
  Event awaited_;                // of the piece of work that is on; guarded by mutex_
};

}  // namespace mp::host

#endif  // MP_HOST_STREAM_H_
