// An in-order queue of work on one device, and marks in it.
//
//   MP_RETURN_IF_ERROR(producer.Launch(Produce{x}));
//   mp::Event ready = producer.Record();
//   MP_RETURN_IF_ERROR(consumer.Wait(ready));
//   MP_RETURN_IF_ERROR(consumer.Launch(Consume{x}));
//   return consumer.Synchronize();
//
// Errors.    Work that fails, and operations that were queued here and came to nothing, are told by
//            the next Synchronize, the first of them, once.  The work behind them still runs.
// Threads.   Any number at once; what several threads queue is queued in some order.
// Ownership. A Stream outlives the Events recorded in it.  Memory that queued work uses stays
//            alive until the work is done; a Buffer sees to that itself.
#ifndef MP_STREAM_H_
#define MP_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mp/base/process.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/kernel.h"
#include "mp/tensor.h"

namespace mp {

class Recording;
class Stream;
class Track;

// A mark in a stream: the work queued before it.  A value, copied freely; a default one is done.
struct Event {
  Stream* stream = nullptr;
  uint64_t position = 0;
  uint64_t recording = 0;  // not 0: a mark in a capture, which is never done (see mp/graph.h)

  // Whether the work before the mark is done.  Does not wait.
  bool Done() const;
  // Waits on the calling thread, as Stream::Synchronize does, for this mark only.
  absl::Status Synchronize(absl::Duration timeout = absl::InfiniteDuration()) const;
};

// What a thread does that waits for a stream in which nothing moves.
class StallWatch {
 public:
  virtual ~StallWatch() = default;
  // Called on the waiting thread before its first sleep, and again when the time returned last has
  // passed.  Returns how long it may sleep next; it may also make the stream move, by failing
  // what the stream waits for.
  virtual absl::Duration OnStall(Stream& stream, absl::Duration waited) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues user compute.  Unsupported where the kernel has no form for this backend.
  absl::Status Launch(Kernel kernel) {
    MP_RETURN_IF_ERROR(maker_.Check());
    if (recording() != nullptr) [[unlikely]]
      return RecordLaunch(std::move(kernel));
    return DoLaunch(std::move(kernel));
  }

  // Queues a copy between tensors of one dtype and shape, of any row pitches, both reachable from
  // this device.  On CUDA, pageable memory of the host makes the caller wait for the copy.
  // InvalidArgument: they differ, a view is not sound, or they overlap without being the same.
  absl::Status Copy(const TensorView& source, const TensorView& target);

  // Queues target = source * factor for dense tensors of one reducible float dtype and one shape,
  // which may be the same; rounded once.  InvalidArgument: anything else.
  absl::Status Scale(const TensorView& source, const TensorView& target, double factor);

  // Marks what is queued so far.
  Event Record() {
    if (!maker_.is_this()) return Event{this, 0, 0};
    return recording() == nullptr ? DoRecord() : RecordedMark();
  }

  // Work queued here from now on runs after `event`.  Where streams hold no places it may wait on
  // the calling thread for an operation that is not issued yet.
  absl::Status Wait(const Event& event);

  // Waits until all work queued so far is done, and tells the first error since the last
  // Synchronize.  AbsentShard from the operations it holds comes in time, whatever `timeout` is;
  // when `timeout` passes first the status is DeadlineExceeded without a kind, and nothing is
  // lost.  A timeout of 0 only looks.  InvalidArgument: negative.
  absl::Status Synchronize(absl::Duration timeout = absl::InfiniteDuration());

  // Whether an operation can stand here now.  DeviceError: so much is queued that no more is taken.
  // Unsupported: the application captures the stream below for a graph of its own.
  absl::Status CheckRoom() const {
    MP_RETURN_IF_ERROR(maker_.Check());
    return DoCheckRoom();
  }

  // For CUDA, the cudaStream_t; a null handle on the host.
  NativeStream native() const { return DoNative(); }

  // For mp's own use -------------------------------------------------------------------------

  // Keeps `failure` for the next Synchronize, unless one is kept already.
  void Report(const Failure& failure);
  void TakeBack(absl::string_view message);  // the caller has been told already
  void PassErrorTo(Stream& other);           // moves what is kept
  // From now on what the calling thread queues here goes into `recording`; false where something is
  // recorded here already.
  bool BeginRecording(Recording& recording);
  void EndRecording();
  // Where the calling thread's calls go; null where they are queued.
  Recording* recording() const {
    const uint64_t thread = recording_thread_.load(sync::kRelaxed);
    return thread != 0 && thread == sync::ThisThread() ? recording_ : nullptr;
  }
  // What work queued here up to `position` waits for and has not come yet, on a backend whose Wait
  // does not wait itself.
  void AppendAwaited(uint64_t position, std::vector<Event>& events) {
    DoAppendAwaited(position, events);
  }
  // Whether work up to `position` is known to be done; any position that an operation has had.
  // Waits for nobody and changes nothing.
  bool HasPassed(uint64_t position) { return DoHasPassed(position); }
  // The thread, by sync::ThisThread, that queues most of the work; 0 for none.  The host runs
  // compute at once on it while the stream is idle.
  void set_driver(uint64_t thread) {
    if ((driver_.exchange(thread, sync::kRelaxed) == 0) != (thread == 0)) DoDriven(thread != 0);
  }
  // Whose it is, for messages: "rank 2's compute stream".
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }
  void set_watch(StallWatch* watch) { watch_.store(watch, sync::kRelaxed); }
  // For how long, as far as calls of this have seen, it has not moved with operations on it that
  // only their device can end; nothing where it has none.
  std::optional<absl::Duration> StandsStill(absl::Duration now);
  void Abandon(const Failure& failure);  // whoever waits for it is told
  // Where it records what it runs; null for nowhere.  Set before anything is queued.
  void set_track(Track* track) { track_ = track; }
  Track* track() const { return track_; }

 protected:
  Stream() = default;
  uint64_t driver() const { return driver_.load(sync::kRelaxed); }
  const Process& maker() const { return maker_; }
  StallWatch* watch() const { return watch_.load(sync::kRelaxed); }
  // OK until it is abandoned.
  absl::Status CheckNotAbandoned();

 private:
  friend struct Event;

  virtual absl::Status DoLaunch(Kernel kernel) = 0;
  virtual absl::Status DoCopy(const TensorView& source, const TensorView& target) = 0;
  virtual absl::Status DoScale(const TensorView& source, const TensorView& target,
                               double factor) = 0;
  virtual Event DoRecord() = 0;
  virtual absl::Status DoWait(const Event& event) = 0;
  virtual bool DoQuery(uint64_t position) const = 0;
  virtual bool DoHasPassed(uint64_t position) = 0;
  // Blocks the calling thread until `position` is passed; false where the timeout came first.
  virtual absl::StatusOr<bool> DoBlock(uint64_t position, absl::Duration timeout) = 0;
  virtual absl::Status DoCheckRoom() const = 0;
  virtual void DoAppendAwaited(uint64_t, std::vector<Event>&) {}
  virtual void DoDriven(bool) {}  // a thread drives it from now on, or none does
  // A number that grows as it moves, while such operations are on it.
  virtual std::optional<uint64_t> DoProgress() { return std::nullopt; }
  virtual NativeStream DoNative() const = 0;

  absl::Status TakeError();
  absl::Status RecordLaunch(Kernel kernel);
  Event RecordedMark();

  const Process maker_;
  std::string name_ = "a stream";
  sync::Atomic<StallWatch*> watch_{nullptr};
  sync::Atomic<uint64_t> driver_{0};
  Track* track_ = nullptr;
  sync::Atomic<uint64_t> recording_thread_{0};
  Recording* recording_ = nullptr;  // that thread's
  sync::Atomic<bool> has_error_{false};
  sync::Atomic<bool> abandoned_{false};
  sync::Mutex mutex_;
  // Guarded by mutex_:
  Failure error_;
  Failure abandonment_;
  std::optional<uint64_t> progress_;  // as it was seen last
  absl::Duration stands_since_;       // and when it was seen first
};

}  // namespace mp

#endif  // MP_STREAM_H_
