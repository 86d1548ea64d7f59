// Adds up the cases of one run of `bazel test` from the events that Bazel has written about it.
//
//   Tally tally = ReadEvents(events, ReadFile);
//   std::printf("%d passed, %d failed\n", tally.passed, tally.failed);
//
// The events name the reports of exactly this run, so one that an earlier run left is never
// counted. Whatever kept a case from running counts as failed, once for each target: a build that
// broke, a time-out, a target without a case, a cc_test that ended before GoogleTest wrote its
// report.
#ifndef MP_TOOLS_CASES_TALLY_H_
#define MP_TOOLS_CASES_TALLY_H_

#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace mp::cases {

struct Tally {
  int passed = 0;
  int failed = 0;
  std::vector<std::string> remarks;  // why something counts as failed that no report shows
};

// The content of a file, or nothing when it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

// `events` is what --build_event_json_file wrote: one JSON object a line.
Tally ReadEvents(std::istream& events, const FileReader& read_file);

}  // namespace mp::cases

#endif  // MP_TOOLS_CASES_TALLY_H_
