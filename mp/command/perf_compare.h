// mp beside its peers, turn by turn, so that what the machine does meanwhile meets all of them.
#ifndef MP_COMMAND_PERF_COMPARE_H_
#define MP_COMMAND_PERF_COMPARE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/command/perf_peers.h"
#include "mp/command/perf_run.h"
#include "mp/world.h"

namespace mp::command {

// Medians over the rounds.
struct ComparedRow {
  struct Other {
    double microseconds = 0;
    double ratio = 0;  // to mp's time in the same round
  };
  int64_t bytes = 0;
  double microseconds = 0;  // of one operation of mp's that is waited for
  // From core to core, probed before and after mp's operations; the longest.
  double hop_microseconds = 0;
  std::map<std::string, Other> peers;  // those that came to this size
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::vector<std::string> failures;  // a line each
};

// An AllReduce in place, gathers into memory of their own.  At each round mp at all sizes, then
// each peer at all sizes.  A peer that fails is left out from then on.
absl::StatusOr<Comparison> Compare(World& world, const PerfSpec& spec, const PeerTask& task,
                                   std::vector<Peer> peers, int rounds);

// The table for people.
std::string ToText(const Comparison& comparison, int rounds);

}  // namespace mp::command

#endif  // MP_COMMAND_PERF_COMPARE_H_
