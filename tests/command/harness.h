// Runs the built program `mp` as its users do, in a folder of the test's own, and keeps what every
// failure owes: its exit code, nothing on stdout, one line on stderr, and no trace in the folder.
//
//   folder().Write("a.npy", ...);
//   Result result = Run({"gather", "--out=full.npy", "a.npy", "b.npy"});
//   Fails(1, "a.npy: exists already", {"gather", ...});
#ifndef MP_TESTS_COMMAND_HARNESS_H_
#define MP_TESTS_COMMAND_HARNESS_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/files/samples.h"

namespace mp::command {

struct Result {
  int exit_code = -1;  // -1 where a signal ended it
  std::string out;
  std::string err;
};

struct RunOptions {
  int64_t largest_file = -1;  // bytes (RLIMIT_FSIZE); none by default
  bool terminal = false;      // stderr is a terminal
  std::string out = "";       // where stdout goes, captured by default
  std::string in = "/dev/null";
  std::vector<std::string> environment = {};  // "NAME=value", beside the test's own
};

class CommandTest : public testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  // By default the program that people run; `program` is another one that stands in for it.
  explicit CommandTest(std::string program = "mp/command/mp") : program_(std::move(program)) {}

  const files::TempFolder& folder() const { return folder_; }

  // The program's working folder is folder().
  Result Run(const Arguments& arguments, const RunOptions& options = {});

  // Exit code 0, and no word on stderr.
  Result Succeeds(const Arguments& arguments, const RunOptions& options = {});

  // This exit code, empty stdout, one line on stderr that contains `text`, and the folder's files
  // as they were.
  void Fails(int exit_code, const std::string& text, const Arguments& arguments,
             const RunOptions& options = {});

  // What lies behind the header of an .npy file that the program wrote.
  std::string NpyData(const std::string& name);
  // What the header says: "<f4 (2, 3)".
  std::string NpyType(const std::string& name);

 private:
  const std::string program_;
  files::TempFolder folder_;
};

}  // namespace mp::command

#endif  // MP_TESTS_COMMAND_HARNESS_H_
