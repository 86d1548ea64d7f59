// All who want to know of threads that wait for streams of one Backend.  What they fail may have
// been in the way of other operations, which are issued then.
//
// Threads. Any number at once.
#ifndef MP_STALL_WATCHES_H_
#define MP_STALL_WATCHES_H_

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "mp/base/sync.h"
#include "mp/order.h"
#include "mp/stream.h"
#include "mp/wait.h"

namespace mp {

class StallWatches final : public StallWatch {
 public:
  explicit StallWatches(Order& order) : order_(order) {}
  void Add(StallWatch& watch) {
    sync::MutexLock lock(mutex_);
    watches_.push_back(&watch);
  }
  void Remove(StallWatch& watch) {
    sync::MutexLock lock(mutex_);
    watches_.erase(std::find(watches_.begin(), watches_.end(), &watch));
  }
  absl::Duration OnStall(Stream& stream, absl::Duration waited) override {
    absl::Duration sleep = kLongest;
    if (Wait* wait = Wait::Current()) wait->Tell(order_.mutex, order_.waits);
    {
      sync::MutexLock lock(mutex_);
      for (StallWatch* watch : watches_) sleep = std::min(sleep, watch->OnStall(stream, waited));
    }
    order_.IssueTicketed();  // without the lock: an operation that cannot be issued is a stall too
    return sleep;
  }

 private:
  // How long a thread sleeps at most before it looks again.
  static constexpr absl::Duration kLongest = absl::Seconds(1);

  Order& order_;
  sync::Mutex mutex_;
  std::vector<StallWatch*> watches_;  // guarded by mutex_
};

}  // namespace mp

#endif  // MP_STALL_WATCHES_H_
