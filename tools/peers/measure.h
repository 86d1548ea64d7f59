// What the programs beside this file share: their arguments, and how an operation is timed.
//
//   PROGRAM OP RANKS ROWS SECONDS SIZE...
//
// OP is allreduce, gather or allgather, of f32; sizes are those of `mp perf`, in bytes and rising:
// a rank's tensor of an allreduce, the whole result of a gather, whose ROWS rows at most are joined
// along the last dimension.  For each size it prints a line `SIZE MEDIAN P99`: microseconds of one
// operation as rank 0 sees it, one after the other.  A program that finds a wrong element ends with
// an error; one whose operation takes more than a second prints that size as the last.
#ifndef MP_TOOLS_PEERS_MEASURE_H_
#define MP_TOOLS_PEERS_MEASURE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace peers {

struct Arguments {
  std::string op;
  int ranks = 2;
  size_t rows = 64;
  double seconds = 0.05;
  std::vector<size_t> sizes;
};

[[noreturn]] inline void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline Arguments Parse(int argc, char** argv) {
  if (argc < 6) Fail("usage: PROGRAM allreduce|gather|allgather RANKS ROWS SECONDS SIZE...");
  Arguments arguments{
      argv[1], std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10), std::atof(argv[4]), {}};
  for (int i = 5; i < argc; ++i) arguments.sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  const std::string& op = arguments.op;
  if (op != "allreduce" && op != "gather" && op != "allgather") Fail("no such operation: " + op);
  if (arguments.ranks < 2 || arguments.rows < 1) Fail("at least 2 ranks and 1 row");
  return arguments;
}

// Of one rank: an allreduce's tensor is one row; a gather's shard has `columns` a row.
struct Shape {
  size_t rows = 1;
  size_t columns = 1;
  size_t count() const { return rows * columns; }
};

inline Shape ShapeOf(const Arguments& arguments, size_t bytes) {
  if (arguments.op == "allreduce") return {1, std::max<size_t>(bytes / sizeof(float), 1)};
  const auto ranks = static_cast<size_t>(arguments.ranks);
  const size_t elements = std::max(bytes / sizeof(float), ranks);
  const size_t rows = std::clamp<size_t>(elements / ranks, 1, arguments.rows);
  return {rows, elements / rows / ranks};
}

// Rank r brings r + 1, or r + 1 in each element of its shard.
inline float SumOf(int ranks) {
  return static_cast<float>(ranks) * static_cast<float>(ranks + 1) / 2;
}

inline void CheckAll(const float* data, size_t count, float expected) {
  for (size_t i = 0; i < count; ++i) {
    if (data[i] != expected) Fail("wrong element " + std::to_string(i));
  }
}

inline void CheckJoined(const float* data, const Shape& shard, int ranks) {
  for (size_t row = 0; row < shard.rows; ++row) {
    for (int rank = 0; rank < ranks; ++rank, data += shard.columns) {
      CheckAll(data, shard.columns, static_cast<float>(rank + 1));
    }
  }
}

inline double Now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Times `run` on all ranks of `group`, which has Barrier() and FromFirst(rank, value), the value
// that rank 0 gives.  False on all where it was too slow to go on.
template <typename Group, typename Run>
bool Time(const Arguments& arguments, Group& group, int rank, size_t bytes, const Run& run) {
  double one = 0;
  for (int laps = 1; laps > 0;) {
    group.Barrier();
    const double start = Now();
    for (int i = 0; i < laps; ++i) run();
    one = (Now() - start) / laps;
    const bool more = one * laps < 0.1 * arguments.seconds && laps < 1024;
    laps = group.FromFirst(rank, more ? 4 * laps : 0);
  }
  const double fit = std::clamp(arguments.seconds / std::max(one, 1e-8), 3.0, 5000.0);
  const int laps = group.FromFirst(rank, one > 1 ? 0 : static_cast<int>(fit));
  std::vector<double> took(static_cast<size_t>(laps), 0);
  group.Barrier();
  double last = Now();
  for (double& each : took) {
    run();
    const double now = Now();
    each = now - last;
    last = now;
  }
  if (laps == 0) took = {one};
  std::sort(took.begin(), took.end());
  if (rank == 0) {
    std::printf("%zu %.3f %.3f\n", bytes, took[took.size() / 2] * 1e6,
                took[(took.size() * 99 + 99) / 100 - 1] * 1e6);
    std::fflush(stdout);
  }
  return laps > 0;
}

}  // namespace peers

#endif  // MP_TOOLS_PEERS_MEASURE_H_
