// Which ranks of a World wait for which, and the proof that some of them wait for ever.  Internal.
//
// A rank waits where the one thread that drives it does.  A thread waits for a stream, in which
// operations stand that have no ticket, or for a ticket; an operation gets its ticket when all of
// its ranks have posted it, and all older ones of these ranks have theirs.  Only a rank's own
// thread posts for it.  So threads of which each waits for a post of the next, and the last for one
// of the first, wait for ever, whatever others do.  A thread that does anything else, or that waits
// for a limited time, may still post.
//
// Threads. With the Order lock held.
#ifndef MP_WAIT_GRAPH_H_
#define MP_WAIT_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mp/order.h"
#include "mp/rank_state.h"
#include "mp/wait.h"

namespace mp {

class WaitGraph {
 public:
  WaitGraph(const std::vector<std::shared_ptr<RankState>>& ranks, const Order& order)
      : ranks_(ranks), order_(order) {}

  // Where `wait`, by way of others, can never end: fails all operations on that way and returns
  // true.
  bool FailDeadlock(const Wait& wait);

 private:
  // A thread of the way, and the operation that it waits for, by way of older ones.
  struct Step {
    const Wait* wait;
    Pending operation;
  };

  bool Visit(const Wait& wait);
  // What the thread waits for without a limit; null for nothing.
  const Wait* WaitOf(uint64_t thread) const;
  std::vector<Pending> OperationsOf(const Wait& wait) const;
  void AppendOlder(std::vector<Pending>& operations) const;
  std::string Table() const;

  const std::vector<std::shared_ptr<RankState>>& ranks_;
  const Order& order_;
  std::vector<Step> path_;
  std::vector<uint64_t> seen_;  // threads
};

}  // namespace mp

#endif  // MP_WAIT_GRAPH_H_
