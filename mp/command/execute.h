// Runs a plan through a World, one rank for each file, as any other program would.
#ifndef MP_COMMAND_EXECUTE_H_
#define MP_COMMAND_EXECUTE_H_

#include <vector>

#include "absl/status/status.h"
#include "mp/command/plan.h"
#include "mp/command/progress.h"
#include "mp/files/tensor_file.h"
#include "mp/world.h"

namespace mp::command {

struct Job {
  std::vector<Step> steps;
  // Whether every rank's result is written; else there is one output, a gather's from `root`.
  bool all = false;
  int root = 0;
  // One, or one for each rank; tensor i of each is the result of step i.
  std::vector<files::TensorFileWriter> outputs;
};

// Fills the outputs; does not commit them.  Where the ranks' memory is not this machine's own,
// every tensor goes to the rank's device and the result comes back.
absl::Status Execute(const Job& job, World& world, Progress& progress);

}  // namespace mp::command

#endif  // MP_COMMAND_EXECUTE_H_
