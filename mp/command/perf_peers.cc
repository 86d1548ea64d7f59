#include "mp/command/perf_peers.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"

namespace mp::command {
namespace {

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

bool IsProgram(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// All that the command prints on both of its outputs, and its exit status.
absl::StatusOr<std::pair<std::string, int>> Output(const std::string& command) {
  std::FILE* pipe = popen(absl::StrCat(command, " 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot run ", command));
  std::string text;
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, count);
  return std::make_pair(std::move(text), pclose(pipe));
}

// SIZE MEDIAN P99
bool Parse(absl::string_view line, int64_t& size, double& median) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  double p99 = 0;
  return words.size() == 3 && absl::SimpleAtoi(words[0], &size) &&
         absl::SimpleAtod(words[1], &median) && absl::SimpleAtod(words[2], &p99) && median > 0;
}

}  // namespace

absl::StatusOr<std::vector<Peer>> FindPeers(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (entries == nullptr) return absl::NotFoundError(absl::StrCat(folder, ": no such folder"));
  std::vector<Peer> peers;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    if (IsProgram(path)) peers.push_back({entry->d_name, path});
  }
  if (peers.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no program in it"));
  std::sort(peers.begin(), peers.end(),
            [](const Peer& a, const Peer& b) { return a.name < b.name; });
  return peers;
}

absl::StatusOr<std::map<int64_t, double>> RunPeer(const Peer& peer, const PeerTask& task) {
  std::string command = absl::StrCat(Quoted(peer.program), " ", task.op, " ", task.ranks, " ",
                                     task.rows, " ", task.seconds);
  for (const int64_t size : task.sizes) absl::StrAppend(&command, " ", size);
  MP_ASSIGN_OR_RETURN(const auto output, Output(command));
  std::map<int64_t, double> medians;
  std::string said;  // the last line that is no row
  for (const absl::string_view line : absl::StrSplit(output.first, '\n', absl::SkipEmpty())) {
    int64_t size = 0;
    double median = 0;
    if (!Parse(line, size, median)) {
      said = std::string(line);
    } else if (std::find(task.sizes.begin(), task.sizes.end(), size) == task.sizes.end()) {
      return absl::DataLossError(absl::StrCat(peer.name, " tells of ", size, " bytes unasked"));
    } else {
      medians[size] = median;
    }
  }
  if (!medians.empty()) return medians;
  const int status = WIFEXITED(output.second) ? WEXITSTATUS(output.second) : -1;
  return absl::DataLossError(
      absl::StrCat(peer.name, " has ended with status ", status, " and no time; it said: ", said));
}

absl::StatusOr<double> ProbeHop() {
  constexpr uint32_t kLaps = 64;
  constexpr int kTries = 16;
  struct alignas(sync::kApartBytes) Flag {
    sync::Atomic<uint32_t> value{0};
  };
  Flag ping, pong;
  MP_ASSIGN_OR_RETURN(sync::Thread other, sync::Thread::Start("hop", [&] {
                        for (uint32_t lap = 1; lap <= kTries * kLaps; ++lap) {
                          while (ping.value.load(sync::kAcquire) != lap) sync::Pause();
                          pong.value.store(lap, sync::kRelease);
                        }
                      }));
  double least = std::numeric_limits<double>::infinity();
  sync::Clock& clock = sync::Clock::Steady();
  uint32_t lap = 0;
  for (int i = 0; i < kTries; ++i) {
    const absl::Duration start = clock.Now();
    for (uint32_t k = 0; k < kLaps; ++k) {
      ping.value.store(++lap, sync::kRelease);
      while (pong.value.load(sync::kAcquire) != lap) sync::Pause();
    }
    least = std::min(least, absl::ToDoubleMicroseconds(clock.Now() - start) / (2 * kLaps));
  }
  other.Join();
  return least;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace mp::command
