// The last operations of each rank, kept at all times: what is asked when something stands still.
//
//   for (const mp::RecentOperation& operation : world->Recent()) ...
//   MP_RETURN_IF_ERROR(mp::WriteChromeTrace(world->Recent(), "recent.json"));  // mp/chrome_trace.h
//
// Every rank has a ring of its last 64 posts, and every Region one of the times of its last 64
// operations.  A post, an agreement and an end write a few words there and read the cycle counter;
// nothing is allocated and no clock is asked.  Operations of a Region of one rank leave nothing.
//
// Threads. World::Recent from any, at any time.
#ifndef MP_FLIGHT_H_
#define MP_FLIGHT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "mp/base/cycle_clock.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/dtype.h"
#include "mp/operation.h"

namespace mp {

// One rank's part of one operation.  Times count from when its World was created; infinite where it
// has not come to that, or nobody knows any more.
struct RecentOperation {
  int rank = 0;
  std::string region;
  uint64_t sequence = 0;
  absl::string_view name;  // "AllReduce"; "Batch" where the steps are of several kinds
  int steps = 1;
  DType dtype = DType::kF32;  // of the first step
  int64_t bytes = 0;          // of this rank's inputs
  bool overlaps = false;      // it stands on the Region's comm stream
  // It came to nothing, or, where what moves the data has broken, nobody knows what came of it.
  bool dropped = false;
  absl::Duration posted;
  absl::Duration agreed;     // all had come, and it had its ticket
  absl::Duration issued;     // it was on its devices' streams
  absl::Duration completed;  // it had run; never known where only a device could tell (CUDA)
};

// "AllReduce 7 of Region "world", posted 1.5ms ago, done"; `now` in the same time.
std::string ToString(const RecentOperation& operation, absl::Duration now);

// For mp's own use -----------------------------------------------------------------------------

// The times of one Region's last operations.
class RegionLog {
 public:
  explicit RegionLog(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // With the Order lock held, in the order of the sequence numbers.
  void Agreed(uint64_t sequence, uint64_t cycles);
  void Failed(uint64_t from, const Failure& failure, uint64_t cycles);
  const Failure& failure() const { return failure_; }
  uint64_t failed_at() const { return failed_at_; }  // in cycles
  // Of one operation after its agreement, by one thread.
  void Issued(uint64_t sequence, uint64_t cycles);
  void Completed(uint64_t sequence, uint64_t cycles);

  // What is known of an operation, in cycles; 0 for what is not.
  struct Times {
    uint64_t agreed = 0, issued = 0, completed = 0;
    bool dropped = false;
  };
  Times TimesOf(uint64_t sequence) const;

 private:
  static constexpr size_t kDepth = 64;
  // A slot is that of the operation whose number it bears.
  struct Slot {
    sync::Atomic<uint64_t> agreed_sequence{~uint64_t{0}}, agreed{0};
    sync::Atomic<uint64_t> issued_sequence{~uint64_t{0}}, issued{0};
    sync::Atomic<uint64_t> completed_sequence{~uint64_t{0}}, completed{0};
  };
  const std::string name_;
  Failure failure_;  // guarded by the Order's mutex, like the next
  uint64_t failed_at_ = 0;
  sync::Atomic<uint64_t> failed_from_{~uint64_t{0}};
  std::array<Slot, kDepth> slots_;
};

// The last posts of one rank.  Guarded by the Order's mutex.
class FlightRing {
 public:
  void Add(RegionLog& region, uint64_t sequence, absl::Span<const Descriptor> steps,
           absl::Span<const Part> parts, bool overlaps, uint64_t cycles);
  // Up to where the last post's stream has to have come for it to have run.
  void SetPosition(uint64_t position);
  // In the order of the posts, at most `most` of the last.
  std::vector<RecentOperation> Recent(int rank, const CycleClock::Reading& now,
                                      size_t most = kDepth) const;
  struct Place {
    const RegionLog* region;
    uint64_t position;
  };
  std::vector<Place> Places() const;  // of what Recent tells
  bool Mentions(const RegionLog& region) const;

 private:
  static constexpr size_t kDepth = 64;
  struct Post {
    const RegionLog* region = nullptr;
    uint64_t sequence = 0;
    uint64_t cycles = 0;
    uint64_t position = Operation::kNowhere;
    int64_t bytes = 0;
    int steps = 0;
    OpKind kind = OpKind::kAllReduce;
    DType dtype = DType::kF32;
    bool one_kind = true;
    bool overlaps = false;
  };
  uint64_t count_ = 0;
  std::array<Post, kDepth> posts_;
};

// What the ranks and Regions of one World share.
struct WorldFlight {
  const CycleClock clock;

  // Guarded by the Order's mutex.
  std::vector<std::shared_ptr<const RegionLog>> regions;  // that a rank's ring may speak of
  Failure broken;                                         // of what moves the World's data
  bool closed = false;
};

}  // namespace mp

#endif  // MP_FLIGHT_H_
