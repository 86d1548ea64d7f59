// What a merge tells when it is done: a line for each output, or one JSON object.
#ifndef MP_COMMAND_REPORT_H_
#define MP_COMMAND_REPORT_H_

#include <string>

#include "absl/time/time.h"
#include "mp/command/execute.h"

namespace mp::command {

struct Report {
  std::string command;  // "gather"
  std::string backend;  // "host"
  int ranks = 0;
  absl::Duration elapsed;
};

// "full.npy: f32[4, 10], 160 bytes, from 4 ranks in 1.2ms" for each output; "from 4 ranks on
// cuda in 1.2ms".
std::string ReportText(const Report& report, const Job& job);
std::string ReportJson(const Report& report, const Job& job);

}  // namespace mp::command

#endif  // MP_COMMAND_REPORT_H_
