// Rules about where things lie.

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {
namespace {

constexpr std::string_view kTop[] = {"BUILD.bazel", "CHANGELOG.md", "LICENSE",
                                     "README.md",   "WORKSPACE",    "mp",
                                     "tests",       "third_party",  "tools"};

// Headers without a test of their own: a suite covers them, for every implementation, or the test
// of what they are a part of.
struct Covered {
  std::string_view header;
  std::string_view test;  // a file or a folder
};
constexpr Covered kCovered[] = {
    {"mp/backend.h", "tests/contract/"},
    {"mp/buffer.h", "tests/contract/"},
    {"mp/callback.h", "tests/contract/"},
    {"mp/communicator.h", "tests/contract/"},
    {"mp/device.h", "tests/contract/"},
    {"mp/graph.h", "tests/contract/"},
    {"mp/group.h", "tests/contract/"},
    {"mp/kernel.h", "tests/contract/"},
    {"mp/recording.h", "tests/contract/"},
    {"mp/region.h", "tests/contract/"},
    {"mp/stall_watches.h", "tests/contract/"},
    {"mp/stream.h", "tests/contract/"},
    {"mp/wait.h", "tests/contract/"},
    {"mp/wait_graph.h", "tests/contract/"},
    {"mp/work.h", "tests/contract/"},
    {"mp/world.h", "tests/contract/"},
    {"mp/world_state.h", "tests/contract/"},
    {"mp/command/perf_compare.h", "tests/command/perf_test.cc"},
    {"mp/command/perf_run.h", "tests/command/perf_test.cc"},
    {"mp/command/program.h", "tests/command/usage_test.cc"},
    {"mp/cuda/capture.h", "tests/cuda/graph_test.cc"},
    {"mp/cuda/clique.h", "tests/cuda/failure_test.cc"},
    {"mp/cuda/communicator.h", "tests/contract/"},
    {"mp/cuda/device.h", "tests/contract/"},
    {"mp/cuda/direct.h", "tests/contract/"},
    {"mp/cuda/push_copy.h", "tests/contract/"},
    {"mp/cuda/relay.h", "tests/contract/"},
    {"mp/cuda/stream.h", "tests/contract/"},
    {"mp/host/backend.h", "tests/contract/"},
    {"mp/host/graph.h", "tests/contract/"},
};

// Whether the table names a test for `header`, and it exists.
bool IsCovered(const std::set<std::string>& paths, std::string_view header) {
  return std::any_of(std::begin(kCovered), std::end(kCovered), [&](const Covered& covered) {
    if (covered.header != header) return false;
    const auto test = paths.lower_bound(std::string(covered.test));
    return test != paths.end() && test->starts_with(covered.test);
  });
}

// A header that does nothing has nothing to test: it declares, and no function of it returns.
bool HasCode(const File& header) {
  const auto code = CodeOf(header);
  return std::any_of(code.begin(), code.end(), [](const std::string& line) {
    return line.find("return ") != std::string::npos;
  });
}

// Whether `stem`_test.cc exists, or `stem`_*_test.cc for a test in parts.
bool HasTest(const std::set<std::string>& paths, const std::string& stem) {
  for (auto path = paths.lower_bound(stem + "_");
       path != paths.end() && path->starts_with(stem + "_"); ++path) {
    if (path->ends_with("_test.cc")) return true;
  }
  return false;
}

}  // namespace

// The top of the tree is the first thing that a visitor sees, and its order is fixed.
Findings CheckTop(const Tree& tree) {
  std::set<std::string> seen;
  Findings findings;
  for (const File& file : tree) {
    const std::string top = file.path.substr(0, file.path.find('/'));
    if (top.starts_with('.') || !seen.insert(top).second) continue;
    if (std::find(std::begin(kTop), std::end(kTop), top) != std::end(kTop)) continue;
    findings.push_back({file.path, 1, top + " does not belong at the top of the tree"});
  }
  return findings;
}

// mp/a/b.h is tested by tests/a/b_test.cc: whoever changes one knows where the other is.
Findings CheckTests(const Tree& tree) {
  std::set<std::string> paths;
  for (const File& file : tree) paths.insert(file.path);
  Findings findings;
  for (const File& file : tree) {
    if (!file.path.starts_with("mp/") || !IsHeader(file.path)) continue;
    if (IsInline(file.path) || IsCovered(paths, file.path)) continue;
    const std::string stem = file.path.substr(0, file.path.rfind('.'));
    const bool has_source = paths.contains(stem + ".cc") || paths.contains(stem + ".cu");
    const std::string test = "tests/" + stem.substr(std::string_view("mp/").size());
    if ((!has_source && !HasCode(file)) || HasTest(paths, test)) continue;
    findings.push_back({file.path, 1,
                        "has no test: add " + test + "_test.cc, or the test that " +
                            "covers it to the table in tools/tidy/layout.cc"});
  }
  return findings;
}

// A file that somebody leaves in a folder must not become part of the program.
Findings CheckGlobs(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    if (!IsBuild(file.path) || file.path.starts_with("third_party/")) continue;
    for (int line = 1; const std::string& text : file.lines) {
      if (text.substr(0, text.find('#')).find("glob(") != std::string::npos) {
        findings.push_back({file.path, line, "glob(): list the files"});
      }
      ++line;
    }
  }
  return findings;
}

}  // namespace mp::tidy
