// Prints how many cases of some runs of `bazel test` passed and failed, as the last line:
//
//   count_cases EVENTS.json...        with EVENTS.json from --build_event_json_file
//
// Exits with 0 when all passed and there was at least one, with 1 when not, with 2 on wrong use.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tools/cases/tally.h"

namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: count_cases EVENTS.json...\n", stderr);
    return 2;
  }
  mp::cases::Tally all;
  for (int i = 1; i < argc; ++i) {
    std::ifstream events(argv[i]);  // one that is missing reads as a run that did not finish
    const mp::cases::Tally tally = mp::cases::ReadEvents(events, ReadFile);
    all.passed += tally.passed;
    all.failed += tally.failed;
    for (const std::string& remark : tally.remarks) std::printf("failed: %s\n", remark.c_str());
  }
  std::printf("%d passed, %d failed\n", all.passed, all.failed);
  return all.failed == 0 ? 0 : 1;
}
