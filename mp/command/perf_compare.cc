#include "mp/command/perf_compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mp/base/status.h"

namespace mp::command {
namespace {

// What was measured at one size, round by round.
struct Samples {
  std::vector<double> own;
  double hop = 0;
  struct Other {
    std::vector<double> microseconds, ratios;
  };
  std::map<std::string, Other> peers;
};

}  // namespace

absl::StatusOr<Comparison> Compare(World& world, const PerfSpec& spec, const PeerTask& task,
                                   std::vector<Peer> peers, int rounds) {
  Comparison comparison;
  std::map<int64_t, Samples> all;
  for (int round = 0; round < rounds; ++round) {
    for (const int64_t bytes : task.sizes) {
      Samples& samples = all[bytes];
      MP_ASSIGN_OR_RETURN(const double before, ProbeHop());
      MP_ASSIGN_OR_RETURN(const PerfRow row, Measure(world, spec, bytes));
      MP_ASSIGN_OR_RETURN(const double after, ProbeHop());
      const PerfTimes& times = spec.op == PerfOp::kAllReduce ? row.in_place : row.out_of_place;
      samples.own.push_back(times.median * 1e6);
      samples.hop = std::max({samples.hop, before, after});
      if (row.out_of_place.wrong + row.in_place.wrong > 0) {
        return absl::InternalError(absl::StrCat(bytes, " bytes: elements are wrong"));
      }
    }
    std::set<std::string> failed;
    for (const Peer& peer : peers) {
      const absl::StatusOr<std::map<int64_t, double>> times = RunPeer(peer, task);
      if (!times.ok()) {
        comparison.failures.push_back(std::string(times.status().message()));
        failed.insert(peer.name);
        continue;
      }
      for (const auto& [bytes, microseconds] : *times) {
        Samples::Other& other = all[bytes].peers[peer.name];
        other.microseconds.push_back(microseconds);
        other.ratios.push_back(microseconds / all[bytes].own.back());
      }
    }
    const auto gone = [&failed](const Peer& peer) { return failed.count(peer.name) > 0; };
    peers.erase(std::remove_if(peers.begin(), peers.end(), gone), peers.end());
  }
  for (const int64_t bytes : task.sizes) {
    const Samples& samples = all[bytes];
    ComparedRow row{bytes, MedianOf(samples.own), samples.hop, {}};
    for (const auto& [name, other] : samples.peers) {
      row.peers[name] = {MedianOf(other.microseconds), MedianOf(other.ratios)};
    }
    comparison.rows.push_back(std::move(row));
  }
  return comparison;
}

std::string ToText(const Comparison& comparison, int rounds) {
  std::set<std::string> names;
  for (const ComparedRow& row : comparison.rows) {
    for (const auto& [name, other] : row.peers) names.insert(name);
  }
  std::string text = absl::StrFormat(
      "#\n# median of one operation, us, and how many times mp's that is; medians of %d rounds\n"
      "#%11s %10s %6s",
      rounds, "size", "mp", "hop");
  for (const std::string& name : names) absl::StrAppendFormat(&text, " %19s", name);
  for (const ComparedRow& row : comparison.rows) {
    absl::StrAppendFormat(&text, "\n %11d %10.2f %6.2f", row.bytes, row.microseconds,
                          row.hop_microseconds);
    for (const std::string& name : names) {
      const auto found = row.peers.find(name);
      if (found == row.peers.end()) {
        absl::StrAppendFormat(&text, " %19s", "-");
      } else {
        const std::string ratio = absl::StrFormat("(%.2f)", found->second.ratio);
        absl::StrAppendFormat(&text, " %10.2f %8s", found->second.microseconds, ratio);
      }
    }
  }
  for (const std::string& failure : comparison.failures) absl::StrAppend(&text, "\n# ", failure);
  return absl::StrCat(text, "\n");
}

}  // namespace mp::command
