// What `mp gather` and `mp reduce` share: one file is one rank's tensors, and the result is written
// to one file or to one for each rank.
//
//   files -> plan -> outputs of the right size -> World -> names for the outputs -> report
//
// Inputs and outputs are mapped: on the host the data goes once from file to file, with cuda to the
// rank's GPU and back.  Whatever fails, no output is left, and nothing that was there is changed.
#ifndef MP_COMMAND_MERGE_H_
#define MP_COMMAND_MERGE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/command/backend_flag.h"
#include "mp/command/plan.h"
#include "mp/files/tensor_file.h"

namespace mp::command {

struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
  bool all = false;
  int root = 0;
  BackendFlags backend;
  std::optional<int> ranks;
  int threads = 0;
  bool force = false;
  bool json = false;
  bool quiet = false;
};

// Adds the flags that all merges have; `options` outlives the parser.
void AddMergeFlags(CLI::App& app, MergeOptions& options);

// What is wrong with the flags alone.
absl::Status CheckMergeFlags(const MergeOptions& options);

using Planner =
    std::function<absl::StatusOr<std::vector<Step>>(const std::vector<files::TensorFile>&)>;

// Does the work; `command` is its name in reports.  A result that is printed goes to stdout.
absl::Status Merge(const std::string& command, const MergeOptions& options, const Planner& plan);

}  // namespace mp::command

#endif  // MP_COMMAND_MERGE_H_
