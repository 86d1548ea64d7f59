// The one order of operations of a Backend: the lock under which ranks post and agree, and the
// counter of tickets.  Every Region of every World on the Backend shares it, so that no two
// devices can be given two operations in different orders.
//
// Threads. `mutex` is held for tens of nanoseconds, and never while user code runs or a device is
//          waited for.
#ifndef MP_ORDER_H_
#define MP_ORDER_H_

#include <cstdint>
#include <vector>

#include "mp/base/process.h"
#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"

namespace mp {

class Operation;
class Wait;

// Puts an operation that has its ticket onto its devices' streams.
class Issuer {
 public:
  virtual ~Issuer() = default;
  // Without the Order lock, one operation at a time in the whole Backend.
  virtual void IssueNow(Operation& operation) = 0;
};

struct Order {
  struct Ticketed {
    Issuer* issuer = nullptr;
    Operation* operation = nullptr;
  };

  const Process maker;
  sync::Mutex mutex;
  // Guarded by mutex:
  uint64_t tickets = 0;          // given so far
  uint64_t last_post = 0;        // when, in cycles: what follows from a post has its time
  RingQueue<Ticketed> to_issue;  // where streams hold no places: in ticket order
  bool issuing = false;          // a thread is at it
  std::vector<Wait*> waits;      // of threads that sleep

  // Issues what waits for it, unless another thread is at it, which then does so.  Called without
  // the mutex by whoever may have given a ticket.
  void IssueTicketed() {
    mutex.Lock();
    if (!issuing) {
      issuing = true;
      while (!to_issue.empty()) {
        const Ticketed ticketed = to_issue.Pop();
        mutex.Unlock();
        ticketed.issuer->IssueNow(*ticketed.operation);
        mutex.Lock();
      }
      issuing = false;
    }
    mutex.Unlock();
  }
};

}  // namespace mp

#endif  // MP_ORDER_H_
