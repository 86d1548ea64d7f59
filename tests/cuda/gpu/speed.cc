// Times of operations on the machine's GPUs, beside the limits of the same run: copies within a GPU
// (512 MiB, in turn), and NCCL's own calls where there are two GPUs.
//
//   speed [ranks...]    2, 4 and 8 ranks by default; they share GPUs where there are fewer
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/world.h"

namespace mp::cuda {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

double Seconds() { return absl::ToDoubleSeconds(sync::Clock::Steady().Now()); }

// The time of one call among as many as take about a tenth of a second, after a warm-up.
absl::StatusOr<double> TimeOf(const std::function<absl::Status()>& call,
                              const std::function<absl::Status()>& wait) {
  for (int calls = 4;; calls *= 4) {
    MP_RETURN_IF_ERROR(call());
    MP_RETURN_IF_ERROR(wait());
    const double start = Seconds();
    for (int i = 0; i < calls; ++i) MP_RETURN_IF_ERROR(call());
    MP_RETURN_IF_ERROR(wait());
    const double took = Seconds() - start;
    if (took > 0.1) return took / calls;
  }
}

// Bytes read and written in a second by copies within GPU 0.
absl::StatusOr<double> CopySpeed() {
  constexpr int64_t kBytes = 512 * kMib;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaSetDevice(0)));
  char* memory[2] = {};
  for (char*& half : memory) MP_RETURN_IF_ERROR(MP_CUDA(cudaMalloc(&half, kBytes)));
  int turn = 0;
  const auto copy = [&]() {
    turn = 1 - turn;
    return MP_CUDA(cudaMemcpyAsync(memory[turn], memory[1 - turn], kBytes, cudaMemcpyDefault, {}));
  };
  MP_ASSIGN_OR_RETURN(const double time,
                      TimeOf(copy, [] { return MP_CUDA(cudaStreamSynchronize({})); }));
  for (char* half : memory) MP_RETURN_IF_ERROR(MP_CUDA(cudaFree(half)));
  return 2.0 * kBytes / time;
}

void PrintRow(const char* what, int ranks, int64_t bytes, double time, double moved,
              double copy_speed) {
  std::printf("%-18s %5d %12lld %12.2f %10.1f %8.2f\n", what, ranks, static_cast<long long>(bytes),
              time * 1e6, moved / time / 1e9, moved / time / copy_speed);
}

absl::StatusOr<std::vector<TensorView>> Views(World& world, std::vector<Buffer>& buffers,
                                              const Shape& shape) {
  std::vector<TensorView> views;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    MP_ASSIGN_OR_RETURN(Buffer buffer, world.device(rank).Allocate(DType::kF32, shape));
    views.push_back(buffer.view());
    buffers.push_back(std::move(buffer));
  }
  return views;
}

absl::Status RunOperations(World& world, double copy_speed) {
  const int n = world.world_size();
  const auto wait = [&world] { return world.Synchronize(); };
  for (int64_t bytes = 4096; bytes <= 256 * kMib / n; bytes *= 8) {
    std::vector<Buffer> buffers;
    MP_ASSIGN_OR_RETURN(const auto xs, Views(world, buffers, {bytes / 4}));
    const auto reduce = [&] { return world.region().AllReduce(xs); };
    MP_ASSIGN_OR_RETURN(const double time, TimeOf(reduce, wait));
    PrintRow("AllReduce", n, bytes, time, 2.0 * n * static_cast<double>(bytes), copy_speed);
  }
  constexpr int64_t kRows = 64;
  for (int64_t bytes = 64 * 1024; bytes <= 256 * kMib / n; bytes *= 16) {
    std::vector<Buffer> buffers;
    const int64_t columns = bytes / kRows / 4;
    MP_ASSIGN_OR_RETURN(const auto shards, Views(world, buffers, {kRows, columns}));
    MP_ASSIGN_OR_RETURN(Buffer full, world.device(0).Allocate(DType::kF32, {kRows, n * columns}));
    const auto gather = [&] { return world.region().Gather(shards, full.view(), 0); };
    MP_ASSIGN_OR_RETURN(const double time, TimeOf(gather, wait));
    PrintRow("Gather, 64 rows", n, bytes, time, 2.0 * n * static_cast<double>(bytes), copy_speed);
    Graph graph;
    MP_ASSIGN_OR_RETURN(graph, world.region().Capture([&](RankRegion& region) {
      return region.Gather(shards[static_cast<size_t>(region.peer())], full.view(), 0);
    }));
    MP_ASSIGN_OR_RETURN(const double launch, TimeOf([&] { return graph.Launch(); }, wait));
    PrintRow("the same, a graph", n, bytes, launch, 2.0 * n * static_cast<double>(bytes),
             copy_speed);
  }
  return absl::OkStatus();
}

// What one call of NCCL costs on one GPU, where it has nothing to do but to launch.
absl::Status RunNcclAlone(double copy_speed) {
  ncclComm_t comm = nullptr;
  const int device = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(ncclCommInitAll(&comm, 1, &device)));
  float* memory[2] = {};
  for (float*& half : memory) MP_RETURN_IF_ERROR(MP_CUDA(cudaMalloc(&half, 64 * kMib)));
  for (const int64_t bytes : {int64_t{4096}, 64 * kMib}) {
    const auto reduce = [&] {
      return MP_CUDA(ncclAllReduce(memory[0], memory[1], static_cast<size_t>(bytes / 4), ncclFloat,
                                   ncclSum, comm, {}));
    };
    MP_ASSIGN_OR_RETURN(const double time,
                        TimeOf(reduce, [] { return MP_CUDA(cudaStreamSynchronize({})); }));
    PrintRow("NCCL, one rank", 1, bytes, time, 2.0 * static_cast<double>(bytes), copy_speed);
  }
  for (float* half : memory) MP_RETURN_IF_ERROR(MP_CUDA(cudaFree(half)));
  return MP_CUDA(ncclCommDestroy(comm));
}

absl::Status Run(const std::vector<int>& rank_counts) {
  int gpus = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGetDeviceCount(&gpus)));
  MP_ASSIGN_OR_RETURN(const double copy_speed, CopySpeed());
  std::printf("a copy of 512 MiB within GPU 0 reads and writes %.1f GB/s\n\n", copy_speed / 1e9);
  std::printf("%-18s %5s %12s %12s %10s %8s\n", "", "ranks", "bytes a rank", "us", "GB/s",
              "of copy");
  if (const absl::Status status = RunNcclAlone(copy_speed); !status.ok()) {
    std::printf("NCCL, one rank: %s\n", std::string(status.message()).c_str());
  }
  for (const int ranks : rank_counts) {
    Options options;
    for (int rank = 0; rank < ranks; ++rank) options.devices.push_back(rank % gpus);
    MP_ASSIGN_OR_RETURN(auto backend, NewBackend(options));
    MP_ASSIGN_OR_RETURN(auto world, World::Create(backend, {.rank_threads = false}));
    MP_RETURN_IF_ERROR(RunOperations(*world, copy_speed));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mp::cuda

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("no GPU: 0 ran");
    return 0;
  }
  std::vector<int> ranks;
  for (int i = 1; i < argc; ++i) ranks.push_back(std::atoi(argv[i]));
  if (ranks.empty()) ranks = {2, 4, 8};
  const absl::Status status = mp::cuda::Run(ranks);
  if (!status.ok()) std::printf("failed: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
