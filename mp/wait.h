// A wait of the calling thread inside mp, told to whoever looks for ranks that wait for each other.
// Internal.
//
//   Wait wait(stream, position, timeout == absl::InfiniteDuration());
//   ... sleeps, and asks the StallWatch before it does, which tells of it ...
//
// Threads. It is its thread's; what it says is constant while it is told.
#ifndef MP_WAIT_H_
#define MP_WAIT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mp/base/sync.h"
#include "mp/callback.h"

namespace mp {

class Group;
class Stream;

class Wait : private Frame {
 public:
  // For what stands in `stream` up to `position`.
  Wait(Stream& stream, uint64_t position, bool endless)
      : Frame(Kind::kWait), stream_(&stream), position_(position), endless_(endless) {}
  // For the ticket of an operation.
  Wait(const Group& group, uint64_t sequence)
      : Frame(Kind::kWait), group_(&group), position_(sequence), endless_(true) {}
  ~Wait() {
    if (told_ == nullptr) return;
    sync::MutexLock lock(*mutex_);
    told_->erase(std::find(told_->begin(), told_->end(), this));
  }

  // The innermost of the calling thread; null where it does not wait.
  static Wait* Current() { return static_cast<Wait*>(Innermost(Kind::kWait)); }
  // Puts it into `waits`, guarded by `mutex`, until it ends.
  void Tell(sync::Mutex& mutex, std::vector<Wait*>& waits) {
    if (told_ != nullptr) return;
    sync::MutexLock lock(mutex);
    waits.push_back(this);
    mutex_ = &mutex;
    told_ = &waits;
  }

  uint64_t thread() const { return thread_; }
  // Null where it is for a ticket.
  Stream* stream() const { return stream_; }
  uint64_t position() const { return position_; }
  // Null where it is for a stream.
  const Group* group() const { return group_; }
  uint64_t sequence() const { return position_; }
  // Whether the thread does nothing else before what it waits for has come.
  bool endless() const { return endless_; }

 private:
  const uint64_t thread_ = sync::ThisThread();
  Stream* const stream_ = nullptr;
  const Group* const group_ = nullptr;
  const uint64_t position_;
  const bool endless_;
  sync::Mutex* mutex_ = nullptr;
  std::vector<Wait*>* told_ = nullptr;
};

}  // namespace mp

#endif  // MP_WAIT_H_
