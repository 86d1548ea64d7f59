// Other programs that carry out the same operation on the same machine, run beside mp.
//
// A peer is a program that is called as
//
//   PROGRAM OP RANKS ROWS SECONDS SIZE...
//
// with f32 tensors of the sizes of `mp perf`, and that prints for each size, as far as it comes, a
// line `SIZE MEDIAN P99`: microseconds of one operation.  tools/peers/build makes some.
#ifndef MP_COMMAND_PERF_PEERS_H_
#define MP_COMMAND_PERF_PEERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mp::command {

struct Peer {
  std::string name;  // of the file
  std::string program;
};

struct PeerTask {
  std::string op;  // "allreduce", "gather", "allgather"
  int ranks = 2;
  int64_t rows = 64;
  double seconds = 0.05;  // at each size
  std::vector<int64_t> sizes;
};

// The programs in a folder, by name.  NotFound: there is no such folder, or none in it.
absl::StatusOr<std::vector<Peer>> FindPeers(const std::string& folder);

// Median microseconds by size, of the sizes that it came to.  DataLoss: what it prints is not
// understood, or it fails before the first size; the text has its last line.
absl::StatusOr<std::map<int64_t, double>> RunPeer(const Peer& peer, const PeerTask& task);

// Microseconds that a word takes from one core to another: the least of several tries.
absl::StatusOr<double> ProbeHop();

// The middle one, of which there is at least one.
double MedianOf(std::vector<double> values);

}  // namespace mp::command

#endif  // MP_COMMAND_PERF_PEERS_H_
