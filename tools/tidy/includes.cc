// Rules about who includes what.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {
namespace {

bool StartsWithAny(std::string_view path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [path](std::string_view prefix) { return path.starts_with(prefix); });
}

// The parts of mp/, lowest first. A part includes those on its own level and below.
struct Part {
  std::string_view prefix;
  int level;
};
constexpr Part kParts[] = {
    {"mp/base/", 0},         {"mp/dtype", 1},        {"mp/mesh", 1},      {"mp/tensor", 1},
    {"mp/trace", 1},         {"mp/buffer", 2},       {"mp/device", 2},    {"mp/event", 2},
    {"mp/kernel", 2},        {"mp/operation", 2},    {"mp/recording", 2}, {"mp/stream", 2},
    {"mp/wait.h", 2},        {"mp/communicator", 3}, {"mp/backend", 4},   {"mp/order", 4},
    {"mp/stall_watches", 4}, {"mp/callback", 2},     {"mp/host/", 5},     {"mp/cuda/", 5},
    {"mp/command/", 7},
};
// All that is not in the table: region, world, and whatever is built on them.
constexpr int kAboveTheSeam = 6;
constexpr int kCommand = 7;

int LevelOf(std::string_view path) {
  const auto* part = std::find_if(std::begin(kParts), std::end(kParts),
                                  [path](const Part& p) { return path.starts_with(p.prefix); });
  return part == std::end(kParts) ? kAboveTheSeam : part->level;
}

bool IsBackend(std::string_view path) { return StartsWithAny(path, {"mp/host/", "mp/cuda/"}); }

// Why `path` must not include `included`, or nothing.
std::string LayerBroken(std::string_view path, std::string_view included) {
  if (StartsWithAny(included, {"tests/", "tools/"})) return "what is shipped stands without it";
  if (!included.starts_with("mp/")) return "";
  if (LevelOf(included) > LevelOf(path)) return "it lies above";
  if (LevelOf(path) == kCommand || !IsBackend(included)) return "";
  if (!IsBackend(path)) return "a backend is handed in by the caller, through mp/backend.h";
  if (path.substr(0, 8) != included.substr(0, 8)) return "one backend knows nothing of the other";
  return "";
}

}  // namespace

// Whoever knows the parts below one part knows all that it can depend on, and a new backend needs
// no change above the seam. See the layers in mp/README.md.
Findings CheckLayers(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    if (!file.path.starts_with("mp/") || !IsCpp(file.path)) continue;
    for (const Include& include : IncludesOf(file)) {
      const std::string reason = LayerBroken(file.path, include.path);
      if (reason.empty()) continue;
      findings.push_back({file.path, include.line, "includes " + include.path + ": " + reason});
    }
  }
  return findings;
}

// All else builds, and runs its tests, on machines without CUDA.
Findings CheckCudaHeaders(const Tree& tree) {
  const std::vector<std::string_view> allowed = {"mp/cuda/", "tests/cuda/", "tests/fake/"};
  Findings findings;
  for (const File& file : tree) {
    if (!IsCpp(file.path) || StartsWithAny(file.path, allowed)) continue;
    for (const Include& include : IncludesOf(file)) {
      if (!StartsWithAny(include.path, {"cuda", "nccl"})) continue;
      findings.push_back({file.path, include.line,
                          "includes " + include.path +
                              ": CUDA and NCCL only in mp/cuda, tests/fake and tests/cuda"});
    }
  }
  return findings;
}

// The explorer of schedules replaces what mp/base/sync.h offers. A thread, a lock or a clock from
// elsewhere would be out of its sight, and a test that waits for one would not repeat.
Findings CheckThreads(const Tree& tree) {
  const std::vector<std::string_view> allowed = {
      "mp/base/sync",     // where they are made
      "tests/base/sync",  // where they are held against the standard library's
      "tests/support/",   // what tests share
      "tools/peers/",     // programs of other libraries, without mp
      "tests/fake/",      // a runtime that has its own threads and a current device for each
  };
  const std::vector<std::string_view> headers = {
      "atomic", "barrier",   "chrono",        "condition_variable", "future",       "latch",
      "mutex",  "pthread.h", "semaphore",     "semaphore.h",        "shared_mutex", "stop_token",
      "thread", "threads.h", "linux/futex.h", "absl/time/clock.h"};
  constexpr std::string_view kKeyword = "thread_local";
  Findings findings;
  for (const File& file : tree) {
    if (!IsCpp(file.path) || StartsWithAny(file.path, allowed)) continue;
    for (const Include& include : IncludesOf(file)) {
      if (!include.path.starts_with("absl/synchronization/") &&
          std::find(headers.begin(), headers.end(), include.path) == headers.end()) {
        continue;
      }
      findings.push_back({file.path, include.line,
                          "includes " + include.path +
                              ": threads, locks, atomics and clocks come from mp/base/sync.h"});
    }
    const std::vector<std::string> code = CodeOf(file);
    for (int line = 1; const std::string& text : code) {
      if (text.find(kKeyword) != std::string::npos) {
        findings.push_back(
            {file.path, line, std::string(kKeyword) + ": such state comes from mp/base/sync.h"});
      }
      ++line;
    }
  }
  return findings;
}

}  // namespace mp::tidy
