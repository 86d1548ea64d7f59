// One subcommand of mp: its flags, what can be wrong with them, and its work.
//
// main.cc parses the command line into the flags, calls check and then run.  A subcommand is a
// function that adds itself to the parser and returns its Command; the flags' storage lives in
// the closures.
#ifndef MP_COMMAND_COMMAND_H_
#define MP_COMMAND_COMMAND_H_

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace mp::command {

struct Command {
  CLI::App* app = nullptr;  // the parser's part for this subcommand
  // Looks at the flags alone; an error is wrong usage (exit code 2).
  std::function<absl::Status()> check;
  // An error is a failure of the work (exit code 1).
  std::function<absl::Status()> run;
};

Command AddEmbed(CLI::App& app);
Command AddGather(CLI::App& app);
Command AddReduce(CLI::App& app);
Command AddPerf(CLI::App& app);
Command AddInfo(CLI::App& app);

}  // namespace mp::command

#endif  // MP_COMMAND_COMMAND_H_
