// The handle of one overlapped operation.
//
//   MP_ASSIGN_OR_RETURN(mp::Work sum, rank.region().StartAllReduce(x));
//   MP_RETURN_IF_ERROR(rank.stream().Launch(SomethingElse{...}));
//   MP_RETURN_IF_ERROR(sum.Wait(rank.stream()));    // what is queued next sees the sum
//
// Threads. A value; may be copied to and used on any thread.  It keeps the Region's state alive.
#ifndef MP_WORK_H_
#define MP_WORK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mp/stream.h"

namespace mp {

class Group;

class Work {
 public:
  // Done, with success: what an operation of a Region of one rank gives.
  Work() = default;

  // Work queued on `stream` from now on runs after the operation.  Tells an error that is known.
  absl::Status Wait(Stream& stream) const;

  // Waits on the calling thread; `timeout` as in Stream::Synchronize.
  absl::Status Synchronize(absl::Duration timeout = absl::InfiniteDuration()) const;

  // Whether the operation has ended, well or badly.  Does not wait.
  bool Done() const { return event_.Done(); }

  // OK while the operation is under way and after it went well.
  absl::Status status() const;

 private:
  friend class Group;
  Work(std::shared_ptr<Group> group, uint64_t sequence, const Event& event)
      : group_(std::move(group)), sequence_(sequence), event_(event) {}

  std::shared_ptr<Group> group_;
  uint64_t sequence_ = 0;
  Event event_;
};

}  // namespace mp

#endif  // MP_WORK_H_
