// What `mp embed` says at its end.
#ifndef MP_COMMAND_EMBED_REPORT_H_
#define MP_COMMAND_EMBED_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "mp/command/embed_input.h"
#include "mp/trace.h"

namespace mp::command {

struct EmbedReport {
  std::string model;
  int ranks = 0;
  int threads = 0;
  absl::Duration load;        // of the model
  absl::Duration elapsed;     // from the first line to the last row
  TraceTotals mean_of_ranks;  // within elapsed
};

struct Nearest {
  size_t line;  // from 0
  float cosine;
};

// The `top` rows of [rows, query.size()] nearest to `query`, all of length 1; nearest first, and of
// equal ones the first line first.
std::vector<Nearest> FindNearest(absl::Span<const float> rows, absl::Span<const float> query,
                                 size_t top);

// One line: sentences/s, and where the time of an average rank went.
std::string EmbedReportText(const EmbedReport& report, const EncodedLines& lines);

// "0.8123  line 3: text", a line for each.
std::string NearestText(const std::vector<Nearest>& nearest,
                        const std::vector<absl::string_view>& lines);

// "3  [+0.0123 -0.0456 +0.0789 ... 384 in all]  text", a line for each row of [lines, hidden].
std::string RowsText(absl::Span<const float> rows, const std::vector<absl::string_view>& lines);

// Everything as one JSON object: the nearest where `query` is not null, else the rows, unless they
// are in the file `out`.
std::string EmbedReportJson(const EmbedReport& report, const EncodedLines& encoded,
                            const std::vector<absl::string_view>& lines, const std::string& out,
                            const std::vector<Nearest>* nearest, absl::Span<const float> rows);

}  // namespace mp::command

#endif  // MP_COMMAND_EMBED_REPORT_H_
