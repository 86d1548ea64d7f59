// All who want to know of threads that wait for streams of one Backend.  What they fail may have
// been in the way of other operations, which are issued then.
//
// Threads. Any number at once, and so are the watches asked.
#ifndef MP_STALL_WATCHES_H_
#define MP_STALL_WATCHES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
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
    watches_.push_back(std::make_unique<Watch>(watch, ++last_));
  }
  // Returns when nobody asks it any more.
  void Remove(StallWatch& watch) {
    std::unique_ptr<Watch> removed;
    {
      sync::MutexLock lock(mutex_);
      const auto it = std::find_if(watches_.begin(), watches_.end(),
                                   [&](const auto& each) { return &each->watch == &watch; });
      removed = std::move(*it);
      watches_.erase(it);
    }
    while (true) {
      const uint32_t seen = left_.Prepare();
      if (removed->users.load(sync::kSeqCst) == 0) break;
      left_.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
    }
    left_.Cancel();
  }
  absl::Duration OnStall(Stream& stream, absl::Duration waited) override {
    absl::Duration sleep = kLongest;
    if (Wait* wait = Wait::Current()) wait->Tell(order_.mutex, order_.waits);
    // Without the lock: a watch calls the application's log, which may wait for another thread.
    for (Watch* watch = Take(0); watch != nullptr;) {
      const Use use(*watch, left_);
      sleep = std::min(sleep, watch->watch.OnStall(stream, waited));
      watch = Take(watch->number);
    }
    order_.IssueTicketed();  // an operation that cannot be issued is a stall too
    return sleep;
  }

 private:
  // How long a thread sleeps at most before it looks again.
  static constexpr absl::Duration kLongest = absl::Seconds(1);

  struct Watch {
    Watch(StallWatch& it, uint64_t its_number) : watch(it), number(its_number) {}
    StallWatch& watch;
    const uint64_t number;
    sync::Atomic<int> users{0};  // while there are any, Remove does not return
  };
  class Use {
   public:
    Use(Watch& watch, sync::Signal& left) : watch_(watch), left_(left) {}
    ~Use() {
      watch_.users.fetch_sub(1, sync::kSeqCst);
      left_.Raise();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Watch& watch_;
    sync::Signal& left_;
  };
  // The next one behind number `last`, for a Use; null for none.
  Watch* Take(uint64_t last) {
    sync::MutexLock lock(mutex_);
    for (const auto& watch : watches_) {
      if (watch->number <= last) continue;
      watch->users.fetch_add(1, sync::kRelaxed);
      return watch.get();
    }
    return nullptr;
  }

  Order& order_;
  sync::Mutex mutex_;
  std::vector<std::unique_ptr<Watch>> watches_;  // by number; guarded by mutex_
  uint64_t last_ = 0;                            // number; guarded by mutex_
  sync::Signal left_;                            // somebody has asked
};

}  // namespace mp

#endif  // MP_STALL_WATCHES_H_
