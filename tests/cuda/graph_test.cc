// Graphs over CUDA: the calls that a launch makes; replays with changed inputs on every route,
// small and large, in two lanes; every call of a capture fails in turn and leaves nothing; the
// application's own captures are neither used nor spoilt; and an abort with a launch under way.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
const Options kNccl = {.devices = {2, 0, 1}, .transport = Transport::kNccl};
const Options kAuto = {.devices = {2, 0, 1}};
const Options kDirect = {.devices = {2, 0, 1}, .transport = Transport::kDirect};
const Options kTwoGpus = {.devices = {2, 0, 2}};
const Options kOneGpu = {.devices = {1, 1, 1}};

size_t At(int rank) { return static_cast<size_t>(rank); }

// A World whose ranks have a few numbers each, and what a graph makes of them: with x of each rank,
// sum = 2 * (x0 + x1 + x2), as a kernel behind the reduction scales it; half = the sum of x / 2,
// reduced in the other lane; seen = x0, x1, x2, joined there too; then joined = halves of those.
struct Model {
  Model(const Options& options, int64_t size) : Model(NewBackend(options).value(), size) {}
  Model(std::shared_ptr<Backend> on, int64_t size) : count(size), backend(std::move(on)) {
    world = World::Create(backend).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      for (auto* buffers : {&x, &sum, &half}) {
        buffers->push_back(world->device(rank).Allocate(DType::kF32, {count}).value());
      }
      for (auto* buffers : {&joined, &seen}) {
        buffers->push_back(world->device(rank).Allocate(DType::kF32, {kRanks * count}).value());
      }
    }
  }

  absl::Status Record(RankRegion& region) const {
    const size_t r = At(region.peer());
    Stream& stream = region.stream();
    MP_RETURN_IF_ERROR(stream.Copy(x[r].view(), sum[r].view()));
    MP_ASSIGN_OR_RETURN(const Work halved,
                        region.StartAllReduce(x[r].view(), half[r].view(), {.scale = 0.5}));
    MP_RETURN_IF_ERROR(region.AllReduce(sum[r].view()));
    MP_ASSIGN_OR_RETURN(const Work join, region.StartAllGather(x[r].view(), joined[r].view()));
    MP_RETURN_IF_ERROR(stream.Scale(sum[r].view(), sum[r].view(), 2));
    MP_RETURN_IF_ERROR(halved.Wait(stream));
    MP_RETURN_IF_ERROR(join.Wait(stream));
    // Nobody reads a result before all of it is there, nor writes one that is still read.
    MP_RETURN_IF_ERROR(stream.Copy(joined[r].view(), seen[r].view()));
    MP_RETURN_IF_ERROR(stream.Scale(x[r].view(), x[r].view(), 0.5));
    return region.AllGather(x[r].view(), joined[r].view());
  }
  absl::StatusOr<Graph> Capture() {
    return world->region().Capture([this](RankRegion& region) { return Record(region); });
  }

  // Small whole numbers, so that every sum is exact.
  static float Input(int turn, int rank, int64_t i) {
    return static_cast<float>((7 * turn + 3 * rank + i) % 64);
  }
  static void Write(const Buffer& to, const std::vector<float>& from) {
    EXPECT_EQ(cudaMemcpy(to.view().data(), from.data(), 4 * from.size(), cudaMemcpyDefault),
              cudaSuccess);
  }
  std::vector<float> Read(const Buffer& from) const {
    std::vector<float> to(static_cast<size_t>(from.view().shape().elements()), -1);
    EXPECT_EQ(cudaMemcpy(to.data(), from.view().data(), 4 * to.size(), cudaMemcpyDefault),
              cudaSuccess);
    return to;
  }
  void Set(int turn) {
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = Input(turn, rank, static_cast<int64_t>(i));
      }
      Write(x[At(rank)], values);
      Write(sum[At(rank)], std::vector<float>(values.size(), -5));
      Write(half[At(rank)], std::vector<float>(values.size(), -6));
      Write(joined[At(rank)], std::vector<float>(kRanks * values.size(), -7));
      Write(seen[At(rank)], std::vector<float>(kRanks * values.size(), -8));
    }
  }
  void Expect(int turn) const {
    std::vector<float> total(static_cast<size_t>(count), 0), all;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < total.size(); ++i) {
        all.push_back(Input(turn, rank, static_cast<int64_t>(i)));
        total[i] += all.back();
      }
    }
    std::vector<float> twice(total), halves(total), half_of_all(all);
    for (float& it : half_of_all) it /= 2;
    for (float& it : twice) it *= 2;
    for (float& it : halves) it /= 2;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(Read(sum[rank]), twice) << "rank " << rank;
      EXPECT_EQ(Read(half[rank]), halves) << "rank " << rank;
      EXPECT_EQ(Read(seen[rank]), all) << "rank " << rank;
      EXPECT_EQ(Read(joined[rank]), half_of_all) << "rank " << rank;
    }
  }

  const int64_t count;
  const std::shared_ptr<Backend> backend;
  std::unique_ptr<World> world;
  std::vector<Buffer> x, sum, half, joined, seen;
};

constexpr uint64_t kFullQueue = 3;

class GraphTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void TearDown() override { EXPECT_EQ(machine_.Verdict(), ""); }

  // With the last seed hardly anything can be queued, and who launches has to wait for room.
  fake::Machine machine_{{.devices = kRanks,
                          .seed = GetParam(),
                          .launch_queue = size_t{GetParam() == kFullQueue ? 4u : 1024u}}};
};

INSTANTIATE_TEST_SUITE_P(Seeds, GraphTest, ::testing::Values(1, 2, kFullQueue));

class GraphFailure : public GraphTest {};  // hundreds of Worlds

INSTANTIATE_TEST_SUITE_P(Seed, GraphFailure, ::testing::Values(2));

using Table = std::map<std::string, int64_t>;

// One graph: all streams meet at the first and leave it.  With NCCL they also meet, and each is
// launched with a record behind it.
TEST_P(GraphTest, TheCallsOfALaunch) {
  const Table direct = {{"cudaEventRecord", kRanks},
                        {"cudaGetDevice", 2},
                        {"cudaGraphLaunch", 1},
                        {"cudaStreamIsCapturing", kRanks},
                        {"cudaStreamWaitEvent", 2 * (kRanks - 1)}};
  Table nccl = direct;
  nccl["cudaEventRecord"] += kRanks;
  nccl["cudaGraphLaunch"] = kRanks;
  const std::pair<Options, Table> cases[] = {
      {kDirect, direct}, {kOneGpu, direct}, {kAuto, direct}, {kNccl, nccl}};
  for (const auto& [options, expected] : cases) {
    Model model(options, 5);
    ASSERT_OK_AND_ASSIGN(const Graph graph, model.Capture());
    EXPECT_OK(graph.Launch());
    EXPECT_OK(model.world->Synchronize());
    const Table before = machine_.calls();
    EXPECT_OK(graph.Launch());
    Table made;
    for (const auto& [function, count] : machine_.calls()) {
      const auto found = before.find(function);
      const int64_t more = count - (found == before.end() ? 0 : found->second);
      if (more != 0) made[function] = more;
    }
    EXPECT_EQ(made, expected);
    EXPECT_OK(model.world->Synchronize());
  }
}

// Also beyond what is reduced directly outside of graphs.
TEST_P(GraphTest, ReplaysReadWhatIsThereThen) {
  for (const Options& options : {kNccl, kAuto, kDirect, kTwoGpus, kOneGpu}) {
    // The last one is sliced where there are several GPUs.
    for (const int64_t count : {1, 37, 17'000}) {
      if (count == 17'000 && options.transport != Transport::kAuto) continue;
      Options with = options;
      if (options.transport == Transport::kAuto) with.direct_bytes = 64;
      Model model(with, count);
      model.Set(0);
      ASSERT_OK_AND_ASSIGN(const Graph graph, model.Capture());
      const int64_t reduced = machine_.calls("ncclAllReduce");
      for (int turn = 1; turn <= 3; ++turn) {
        model.Set(turn);
        EXPECT_OK(graph.Launch());
        EXPECT_OK(model.world->Synchronize());
        model.Expect(turn);
      }
      EXPECT_EQ(machine_.calls("ncclAllReduce"), reduced) << "not when it is launched";
    }
  }
}

// Of each rank's thread, between operations and launches of another graph on the same memory.
TEST_P(GraphTest, LaunchesAndOperationsRunInTheOrderOfTheirCalls) {
  for (const Options& options : {kNccl, kAuto, kOneGpu}) {
    Model model(options, 3);
    model.Set(1);
    constexpr int kRounds = 20;
    EXPECT_OK(model.world->Run([&](Rank& rank) -> absl::Status {
      const TensorView x = model.x[At(rank.id())].view();
      MP_ASSIGN_OR_RETURN(const Graph shrink, rank.region().Capture([&](RankRegion& region) {
        return region.stream().Scale(x, x, 0.5);  // nothing that meets
      }));
      MP_ASSIGN_OR_RETURN(const Graph add, rank.region().Capture([&](RankRegion& region) {
        return region.AllReduce(x);
      }));
      for (int round = 0; round < kRounds; ++round) {
        MP_RETURN_IF_ERROR(shrink.Launch());
        MP_RETURN_IF_ERROR(round % 2 == 0 ? add.Launch() : rank.region().AllReduce(x));
        MP_RETURN_IF_ERROR(shrink.Launch());
        MP_RETURN_IF_ERROR(rank.stream().Scale(x, x, 4.0 / kRanks));
      }
      return absl::OkStatus();
    }));
    // The first round makes all equal to their mean, on which the others change nothing but by
    // rounding: the inputs are chosen so that it is a whole number.
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < 3; ++i) {
        const float mean = Model::Input(1, 1, static_cast<int64_t>(i));
        EXPECT_FLOAT_EQ(model.Read(model.x[rank])[i], mean) << "rank " << rank;
      }
    }
  }
}

// --- what goes wrong -----------------------------------------------------------------------------

TEST_P(GraphFailure, OfAnyCallOfACaptureLeavesNothing) {
  int failed = 0;
  for (const Options& options : {kNccl, kAuto, kTwoGpus}) {
    for (const std::string function :
         {"cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaStreamBeginCapture",
          "cudaEventRecord", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaLaunchKernel",
          "cudaSetDevice", "cudaGetDevice", "cudaStreamEndCapture", "cudaGraphInstantiate",
          "cudaGraphUpload", "cudaThreadExchangeStreamCaptureMode", "ncclGroupStart",
          "ncclAllReduce", "ncclRedOpCreatePreMulSum", "ncclGroupEnd"}) {
      const int result = function[0] == 'n' ? int{ncclSystemError} : int{cudaErrorMemoryAllocation};
      for (int i = 1;; ++i) {
        SCOPED_TRACE(absl::StrCat(function, ", call ", i));
        bool reached = false;
        {
          Model model(options, 5);
          model.Set(i);
          ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
          const int64_t before = machine_.calls(function);
          machine_.FailCall(function, i, result);
          const absl::StatusOr<Graph> graph = model.Capture();
          reached = machine_.calls(function) >= before + i;
          machine_.Heal();
          int device = -1;
          EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
          if (function != "cudaSetDevice" && function != "cudaGetDevice") {
            EXPECT_EQ(device, 1);
          }
          EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
          EXPECT_EQ(machine_.live().captures, 0);
          EXPECT_EQ(machine_.live().graphs, 0);
          if (!graph.ok()) {
            ++failed;
            EXPECT_THAT(graph, KindIs(ErrorKind::kDeviceError,
                                      HasSubstr(function[0] == 'n' ? "system error"
                                                                   : "cudaErrorMemoryAllocation")));
            // Nothing but the capture has failed where only a capture calls that.
            if (function.find("Graph") != std::string::npos ||
                function.find("Capture") != std::string::npos) {
              ASSERT_OK_AND_ASSIGN(const Graph next, model.Capture());
              EXPECT_OK(next.Launch());
              EXPECT_OK(model.world->Synchronize());
              model.Expect(i);
            }
            EXPECT_OK(model.world->Close());  // where the Region has failed, so much is kept
            EXPECT_EQ(machine_.live().executables, 0);
          } else if (model.world->region().status().ok()) {
            EXPECT_OK(graph->Launch());
            EXPECT_OK(model.world->Synchronize());
            model.Expect(i);
          }
        }
        EXPECT_EQ(machine_.Verdict(), "");
        if (!reached || HasFailure()) break;
      }
    }
  }
  EXPECT_GT(failed, 100);
}

// Calls what no capture takes.
struct Allocates {
  static constexpr char kName[] = "Allocates";
  void operator()() const {}
  absl::Status LaunchOn(const NativeStream&) const {
    void* data = nullptr;
    if (cudaMalloc(&data, 4) == cudaSuccess) cudaFree(data);
    cudaGetLastError();
    return absl::OkStatus();
  }
};

struct Refuses {
  static constexpr char kName[] = "Refuses";
  void operator()() const {}
  absl::Status LaunchOn(const NativeStream&) const { return absl::NotFoundError("no weights"); }
};

TEST_P(GraphTest, AKernelThatSpoilsTheCaptureIsNamedAndNothingElseFails) {
  for (const Options& options : {kNccl, kAuto}) {
    Model model(options, 5);
    model.Set(3);
    const auto with = [&model](const Kernel& kernel) {
      return model.world->region()
          .Capture([&](RankRegion& region) -> absl::Status {
            if (region.peer() == 1) MP_RETURN_IF_ERROR(region.stream().Launch(kernel));
            return model.Record(region);
          })
          .status();
    };
    EXPECT_THAT(with(Allocates{}), KindIs(ErrorKind::kUsageError,
                                          AllOf(HasSubstr("\"Allocates\""), HasSubstr("rank 1"))));
    const absl::Status refused = with(Refuses{});
    EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("\"Refuses\""), HasSubstr("no weights")));
    ASSERT_OK_AND_ASSIGN(const Graph graph, model.Capture());
    EXPECT_OK(graph.Launch());
    EXPECT_OK(model.world->Synchronize());
    model.Expect(3);
  }
}

// NCCL frees no communicator that a graph calls.
TEST_P(GraphTest, ALaunchThatDoesNotEndIsAbortedByClose) {
  auto world =
      World::Create(NewBackend(kNccl).value(), {.close_timeout = absl::Milliseconds(300)}).value();
  std::vector<Buffer> x;
  for (int rank = 0; rank < kRanks; ++rank) {
    x.push_back(world->device(rank).Allocate(DType::kF32, {4}).value());
  }
  ASSERT_OK_AND_ASSIGN(const Graph graph, world->region().Capture([&](RankRegion& region) {
    return region.AllReduce(x[At(region.peer())].view());
  }));
  machine_.StallCollectives(true);
  EXPECT_OK(graph.Launch());
  EXPECT_TRUE(absl::IsDeadlineExceeded(world->Close()));
  EXPECT_EQ(machine_.live().executables, 0) << "before the communicators";
  EXPECT_OK(world->Close());
  machine_.StallCollectives(false);
  EXPECT_THAT(graph.Launch(), KindIs(ErrorKind::kClosed));
}

// --- captures of the application -----------------------------------------------------------------

TEST_P(GraphTest, OfTheApplicationsOwnMpRefusesToBePartAndSpoilsNothing) {
  for (const Options& options : {kNccl, kAuto}) {
    Model model(options, 5);
    model.Set(1);
    ASSERT_OK_AND_ASSIGN(const Graph graph, model.Capture());
    EXPECT_OK(model.world->Run([&](Rank& rank) -> absl::Status {
      const size_t r = At(rank.id());
      RankRegion& region = rank.region();
      const TensorView x = model.x[r].view(), sum = model.sum[r].view();
      MP_ASSIGN_OR_RETURN(const Graph mine, graph.ForRank(rank));
      MP_ASSIGN_OR_RETURN(Stream * another, rank.NewStream());
      const auto refused = KindIs(ErrorKind::kUnsupported, HasSubstr("Region::Capture"));
      const auto stream = static_cast<cudaStream_t>(rank.stream().native().handle);
      MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)));
      EXPECT_THAT(region.AllReduce(x), refused);
      EXPECT_THAT(region.StartAllReduce(x), refused);
      EXPECT_THAT(region.AcquireSlot(), refused);
      EXPECT_THAT(mine.Launch(), refused);
      EXPECT_THAT(region.Capture([&](RankRegion& it) { return it.AllReduce(x); }), refused);
      EXPECT_THAT(rank.stream().Wait(another->Record()), refused);
      EXPECT_THAT(rank.stream().Synchronize(), refused);
      EXPECT_OK(rank.stream().Scale(x, sum, 3));
      // What is done elsewhere does not spoil it.
      EXPECT_OK(another->Copy(x, model.half[r].view()));
      EXPECT_OK(another->Synchronize());
      MP_RETURN_IF_ERROR(rank.device().Allocate(DType::kF32, {4}).status());
      cudaGraph_t made = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(stream, &made), cudaSuccess);
      size_t nodes = 0;
      EXPECT_EQ(cudaGraphGetNodes(made, nullptr, &nodes), cudaSuccess);
      EXPECT_EQ(nodes, 1u) << "the scaling";
      EXPECT_EQ(cudaGraphDestroy(made), cudaSuccess);
      EXPECT_OK(rank.stream().Synchronize());
      return mine.Launch();
    }));
    model.Expect(1);
  }
}

// In the mode that forbids most, on the calling thread and beside all others.
TEST_P(GraphTest, OfTheApplicationsOwnGoOnWhateverMpDoes) {
  for (const Options& options : {kNccl, kAuto, kOneGpu}) {
    cudaStream_t mine = nullptr;
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
    const auto model = std::make_unique<Model>(options, 5);
    model->Set(2);
    ASSERT_EQ(cudaStreamBeginCapture(mine, cudaStreamCaptureModeGlobal), cudaSuccess);
    {
      EXPECT_OK(NewBackend(kDirect));
      Model another(model->backend, 5);
      EXPECT_OK(another.world->region().AllReduce(
          {another.x[0].view(), another.x[1].view(), another.x[2].view()}));
      EXPECT_OK(another.world->Close());
    }
    {
      ASSERT_OK_AND_ASSIGN(const Graph graph, model->Capture());
      EXPECT_OK(graph.Launch());
      EXPECT_OK(model->world->Synchronize());
    }
    EXPECT_OK(model->world->Run([&](Rank& rank) -> absl::Status {
      MP_RETURN_IF_ERROR(rank.region().AllReduce(model->x[At(rank.id())].view()));
      return rank.stream().Synchronize();
    }));
    cudaGraph_t made = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(mine, &made), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(made), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(mine), cudaSuccess);
  }
}

}  // namespace
}  // namespace mp::cuda
