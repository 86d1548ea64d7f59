// What a Group is made with.  Internal.
#ifndef MP_GROUP_OPTIONS_H_
#define MP_GROUP_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mp/flight.h"
#include "mp/rank_state.h"
#include "mp/recording.h"
#include "mp/stream.h"

namespace mp {

// What is called to be recorded, for a rank.
using CaptureBody = std::function<absl::Status(int peer)>;

struct GroupOptions {
  std::string name;
  absl::Duration absence_timeout;
  absl::Duration absence_warning;
  int max_lead = 1;
  uint64_t first_sequence = 0;
  std::shared_ptr<const RunState> run;
  std::shared_ptr<WorldFlight> flight;
  StallWatch* watch = nullptr;  // asked while a rank waits for others to catch up
};

// An operation without a ticket.
struct QueuedOperation {
  Operation* operation = nullptr;
  bool stall_seen = false;
  bool warned = false;
  absl::Duration stalled_since;
  absl::Duration absence_timeout = absl::InfiniteDuration();  // the shortest of its ranks'
};

// Which stream an operation stands on.
enum class Lane : int { kCompute, kComm };

// What is posted beside descriptors and parts: what each rank has recorded (one for one rank's
// post, else all), or the graph to launch.
struct GraphPart {
  std::vector<std::shared_ptr<Recording>> recordings;
  RecordedGraph* graph = nullptr;
};

}  // namespace mp

#endif  // MP_GROUP_OPTIONS_H_
