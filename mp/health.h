// How a World stands at a moment: what every rank has finished, what it has not, and where it is.
//
//   const mp::WorldHealth health = world->Health();
//   if (health.state >= mp::WorldHealth::State::kBroken) ...
//   LOG(INFO) << ToString(health);  // a table
//
// It tells of progress, not of threads that live: a rank that stands still has the same last
// finished operation and an ever older pending one.
//
// Threads. World::Health from any, at any time: it waits for no operation, no stream and no Region
//          that is being made.
#ifndef MP_HEALTH_H_
#define MP_HEALTH_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/flight.h"

namespace mp {

// Of its last 64 operations, like World::Recent; Regions of one rank leave none.
struct RankHealth {
  enum class Place {
    kUndriven,  // no thread drives it
    kLeft,      // its function has returned, or thrown
    kWaiting,   // its thread sleeps inside mp
    kBusy,      // its thread does anything else
  };

  int rank = 0;
  // The last that it has finished, and the oldest that it has posted and not finished; what came to
  // nothing is neither.  On CUDA an operation counts as finished once a mark behind it has passed:
  // one of a wait for its stream, of an Event or of a Work.
  std::optional<RecentOperation> finished, pending;
  // Since `pending` was posted.
  absl::Duration age;
  // Who has not posted `pending` yet.
  std::vector<int> missing;
  Place place = Place::kUndriven;
  // Which wait, or how its function has ended; "" where there is nothing to say.
  std::string where;
};

struct WorldHealth {
  // In the order of what it takes to go on.
  enum class State {
    kOk,
    kFailed,  // Regions have failed: make new ones in their place
    kBroken,  // what moves the data has failed, and with it all Regions: make a new World
    kClosed,
    kLost,  // CUDA is lost to this process: restart the process
  };
  struct FailedRegion {
    std::string name;
    ErrorKind kind;
    std::string cause;
  };

  State state = State::kOk;
  // The first cause of it; none where the state is kOk or kClosed.
  ErrorKind kind = ErrorKind::kNone;
  std::string cause;
  // In the order in which they failed; those that nobody has a handle of any more are left out.
  std::vector<FailedRegion> failed_regions;
  std::vector<RankHealth> ranks;
};

// "ok", "failed", "broken", "closed", "lost".
absl::string_view StateName(WorldHealth::State state);

// A line for the World, one for each failed Region, and a table with a line for each rank:
//
//   World: failed: Region "tensor", operation 7: rank 2 did not come within 10m
//   rank  finished                        pending           age  missing  where
//      0  AllReduce 6 of Region "tensor"  ...
std::string ToString(const WorldHealth& health);

}  // namespace mp

#endif  // MP_HEALTH_H_
