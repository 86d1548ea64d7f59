// Writes a Trace as Chrome trace events: the JSON that chrome://tracing and ui.perfetto.dev open.
//
//   MP_RETURN_IF_ERROR(mp::WriteChromeTrace(*trace, "trace.json"));
//
//   process         a World, by its name
//   thread          one stream of one rank, "rank 2: compute stream"; in the order of the ranks
//   complete event  a Span: ts and dur in microseconds since the first World was created, cat
//                   "compute" or "operation".  A dropped operation says so in its name
//   args            operations: region and sequence, the same on every rank of one operation;
//                   bytes; wait_us, how much of dur went by before all ranks had come; steps of a
//                   batch
//
// Streams without a Span, and Worlds without one, are left out.  Text that is no UTF-8 gets U+FFFD
// where it is not.
//
// The last operations of a World's ranks (mp/flight.h) are written in the same way, a thread for
// each rank: from the post to the end, or to the last thing that is known, with the times of
// agreement and issue among the args.
//
// Threads. Any, at any time; see mp/trace.h for what is told.
#ifndef MP_CHROME_TRACE_H_
#define MP_CHROME_TRACE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "mp/flight.h"
#include "mp/trace.h"

namespace mp {

// The file is replaced.  An error names the path and what the system says; what was written up to
// then stays.
absl::Status WriteChromeTrace(const Trace& trace, const std::string& path);

absl::Status WriteChromeTrace(absl::Span<const RecentOperation> recent, const std::string& path);

// The text of that file.
std::string ChromeTraceText(const Trace& trace);
std::string ChromeTraceText(absl::Span<const RecentOperation> recent);

}  // namespace mp

#endif  // MP_CHROME_TRACE_H_
