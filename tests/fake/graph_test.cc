// Graphs run what was captured, in the order of its edges and no other, with what its memory holds
// at each launch; collectives in them meet, and hang, like plain ones.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mp/cuda/kernels/fold.h"
#include "tests/fake/machine.h"
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GraphTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Options With(int devices) { return {.devices = devices, .seed = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Seeds, GraphTest, ::testing::Range<uint64_t>(1, 9));

// What `record` puts on the stream, which does not run yet.
template <class Function>
cudaGraphExec_t Captured(cudaStream_t stream, Function record, size_t nodes) {
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  record();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, nodes);
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphUpload(exec, stream), cudaSuccess);
  return exec;
}

cudaError_t Scale(float* data, int64_t count, double factor, cudaStream_t stream) {
  return cuda::LaunchScale(DType::kF32, data, data, count, factor, stream);
}

TEST_P(GraphTest, ReplaysSeeTheMemoryAsItIsThen) {
  Machine machine(With(1));
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 4);
  float in[4] = {-1, -1, -1, -1}, out[4] = {};
  Write(data, {9, 9, 9, 9}, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGraphExec_t exec = Captured(
      stream,
      [&] {
        EXPECT_EQ(cudaMemcpyAsync(data, in, sizeof in, cudaMemcpyHostToDevice, stream),
                  cudaSuccess);
        EXPECT_EQ(Scale(data, 4, 2, stream), cudaSuccess);
        EXPECT_EQ(cudaMemcpy2DAsync(data, 8, data + 1, 8, 4, 2, cudaMemcpyDeviceToDevice, stream),
                  cudaSuccess);
        EXPECT_EQ(cudaMemcpyAsync(out, data, sizeof out, cudaMemcpyDeviceToHost, stream),
                  cudaSuccess);
      },
      4);
  EXPECT_THAT(Read(data, 4, stream), ElementsAre(9, 9, 9, 9)) << "nothing has run";
  for (int turn = 1; turn <= 20; ++turn) {
    for (int i = 0; i < 4; ++i) in[i] = static_cast<float>(10 * turn + i);
    EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const float t = static_cast<float>(20 * turn);
    EXPECT_THAT(out, ElementsAre(t + 2, t + 2, t + 6, t + 6));
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// Functions of four nodes; each in the middle waits until the other one has begun.
struct Log {
  static Log& Of(void* data) { return *static_cast<Log*>(data); }
  static void First(void* data) { Of(data).first = ++Of(data).order; }
  static void Left(void* data) {
    Of(data).left = ++Of(data).order;
    Of(data).AwaitBoth();
  }
  static void Right(void* data) {
    Of(data).right = ++Of(data).order;
    Of(data).AwaitBoth();
  }
  static void Last(void* data) { Of(data).last = ++Of(data).order; }
  void AwaitBoth() const {
    while (order < first + 2) std::this_thread::yield();
  }
  std::atomic<int> order{0};
  int first = 0, left = 0, right = 0, last = 0;
};

TEST_P(GraphTest, EdgesAndNothingElseOrderTheNodes) {
  Machine machine(With(2));
  cudaStream_t b = NewStream(1);
  cudaEvent_t back = NewEvent();
  cudaStream_t a = NewStream(0);
  cudaEvent_t event = NewEvent();
  Log log;
  const auto count = [](void* it) { ++static_cast<Log*>(it)->order; };
  cudaGraphExec_t exec = Captured(
      a,
      [&] {
        EXPECT_EQ(cudaLaunchHostFunc(a, Log::First, &log), cudaSuccess);
        EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(b, event, 0), cudaSuccess);
        EXPECT_EQ(cudaLaunchHostFunc(a, Log::Left, &log), cudaSuccess);
        EXPECT_EQ(cudaLaunchHostFunc(b, Log::Right, &log), cudaSuccess);
        EXPECT_EQ(cudaEventRecord(back, b), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(a, back, 0), cudaSuccess);
        EXPECT_EQ(cudaLaunchHostFunc(a, Log::Last, &log), cudaSuccess);
      },
      4);
  // On whatever stream, behind what that has queued and before what follows.
  for (cudaStream_t stream : {a, b, a}) {
    log.order = 0;
    EXPECT_EQ(cudaLaunchHostFunc(stream, count, &log), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(stream, count, &log), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(log.first, 2);
    EXPECT_EQ(log.left + log.right, 3 + 4);
    EXPECT_EQ(log.last, 5);
    EXPECT_EQ(log.order, 6);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  for (cudaEvent_t it : {event, back}) EXPECT_EQ(cudaEventDestroy(it), cudaSuccess);
  for (cudaStream_t it : {a, b}) EXPECT_EQ(cudaStreamDestroy(it), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// How many run at once.
struct Overlap {
  static void Run(void* data) {
    auto& it = *static_cast<Overlap*>(data);
    const int inside = ++it.inside;
    if (inside > it.most) it.most = inside;
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    ++it.count;
    --it.inside;
  }
  std::atomic<int> inside{0}, most{0}, count{0};
};

TEST_P(GraphTest, LaunchesOfOneExecutableDoNotOverlap) {
  Machine machine(With(1));
  cudaStream_t streams[] = {NewStream(0), NewStream(0), NewStream(0)};
  Overlap log;
  cudaGraphExec_t exec = Captured(
      streams[0],
      [&] { EXPECT_EQ(cudaLaunchHostFunc(streams[0], Overlap::Run, &log), cudaSuccess); }, 1);
  for (int i = 0; i < 10; ++i) {
    for (cudaStream_t it : streams) EXPECT_EQ(cudaGraphLaunch(exec, it), cudaSuccess);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess) << "what is queued still runs";
  for (cudaStream_t it : streams) EXPECT_EQ(cudaStreamSynchronize(it), cudaSuccess);
  EXPECT_EQ(log.count, 30);
  EXPECT_EQ(log.most, 1);
  for (cudaStream_t it : streams) EXPECT_EQ(cudaStreamDestroy(it), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(GraphTest, ExternalEventsAreNodes) {
  Machine machine(With(1));
  cudaStream_t a = NewStream(0), b = NewStream(0);
  cudaEvent_t go = NewEvent(), gone = NewEvent();
  cudaGraphExec_t exec = Captured(
      a,
      [&] {
        EXPECT_EQ(cudaStreamWaitEvent(a, go, cudaEventWaitExternal), cudaSuccess);
        EXPECT_EQ(cudaEventRecordWithFlags(gone, a, cudaEventRecordExternal), cudaSuccess);
      },
      2);
  EXPECT_EQ(cudaEventQuery(gone), cudaSuccess) << "never recorded";
  std::atomic<bool> open{false};
  const auto wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  EXPECT_EQ(cudaLaunchHostFunc(b, wait, &open), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(go, b), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, a), cudaSuccess);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cudaEventQuery(gone), cudaErrorNotReady);
  open = true;
  EXPECT_EQ(Await(gone), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  for (cudaEvent_t it : {go, gone}) EXPECT_EQ(cudaEventDestroy(it), cudaSuccess);
  for (cudaStream_t it : {a, b}) EXPECT_EQ(cudaStreamDestroy(it), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// Ranks with a graph each, of one sum.
struct GraphsOfRanks : Ranks {
  explicit GraphsOfRanks(int n) : Ranks(n), execs(static_cast<size_t>(n)) {
    for (cudaStream_t stream : streams) {
      EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    }
    ncclGroupStart();
    for (size_t r = 0; r < comms.size(); ++r) {
      EXPECT_EQ(Sum(data[r], 4, comms[r], streams[r]), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (size_t r = 0; r < comms.size(); ++r) {
      cudaGraph_t graph = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(streams[r], &graph), cudaSuccess);
      EXPECT_EQ(cudaGraphInstantiate(&execs[r], graph, 0), cudaSuccess);
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  }
  void FreeAll() {
    for (cudaGraphExec_t exec : execs) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    Free();
  }
  std::vector<cudaGraphExec_t> execs;
};

TEST_P(GraphTest, CollectivesMeetAtEveryLaunch) {
  Machine machine(With(3));
  GraphsOfRanks ranks(3);
  for (size_t r = 0; r < 3; ++r) Write(ranks.data[r], {1, 2, 3, 4}, ranks.streams[r]);
  float power = 1;
  for (int turn = 0; turn < 10; ++turn) {
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(cudaGraphLaunch(ranks.execs[r], ranks.streams[r]), cudaSuccess);
    }
    ncclGroupStart();  // plain ones between them
    for (size_t r = 0; r < 3; ++r) Sum(ranks.data[r], 1, ranks.comms[r], ranks.streams[r]);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    power *= 3;
    for (size_t r = 0; r < 3; ++r) {
      const float first = power * power;
      EXPECT_THAT(Read(ranks.data[r], 4, ranks.streams[r]),
                  ElementsAre(first, 2 * power, 3 * power, 4 * power));
    }
  }
  ranks.FreeAll();
  EXPECT_EQ(machine.Verdict(), "");
}

// One graph for all ranks, with kernels around the collective.
TEST_P(GraphTest, OneGraphOfAllRanks) {
  Machine machine(With(2));
  Ranks ranks(2);
  cudaStream_t* streams = ranks.streams.data();
  for (size_t r = 0; r < 2; ++r) Write(ranks.data[r], {1, 2, 3, 4}, streams[r]);
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(cudaStreamSynchronize(streams[r]), cudaSuccess);
  cudaSetDevice(1);
  cudaEvent_t back = NewEvent();
  cudaSetDevice(0);
  cudaEvent_t event = NewEvent();
  cudaGraphExec_t exec = Captured(
      streams[0],
      [&] {
        EXPECT_EQ(cudaEventRecord(event, streams[0]), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(streams[1], event, 0), cudaSuccess);
        for (int r = 0; r < 2; ++r) {
          cudaSetDevice(r);
          EXPECT_EQ(Scale(ranks.data[static_cast<size_t>(r)], 4, 2 - r, streams[r]), cudaSuccess);
        }
        ncclGroupStart();
        for (size_t r = 0; r < 2; ++r) Sum(ranks.data[r], 4, ranks.comms[r], streams[r]);
        EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
        EXPECT_EQ(cudaEventRecord(back, streams[1]), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(streams[0], back, 0), cudaSuccess);
      },
      4);
  float all = 1;
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(cudaGraphLaunch(exec, streams[0]), cudaSuccess);
    all *= 3;
    EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_THAT(Read(ranks.data[r], 4, streams[r]), ElementsAre(all, 2 * all, 3 * all, 4 * all));
    }
  }
  // Memory of the other device is not given back under the graph.
  EXPECT_EQ(cudaGraphLaunch(exec, streams[0]), cudaSuccess);
  EXPECT_EQ(cudaFree(ranks.data[1]), cudaSuccess);
  ranks.data[1] = nullptr;
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  for (cudaEvent_t it : {event, back}) EXPECT_EQ(cudaEventDestroy(it), cudaSuccess);
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(GraphTest, ALaunchAfterTheCommunicatorIsFound) {
  Machine machine(With(2));
  GraphsOfRanks ranks(2);
  ncclGroupStart();
  for (ncclComm_t comm : ranks.comms) ncclCommDestroy(comm);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaGraphLaunch(ranks.execs[0], ranks.streams[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks.streams[0]), cudaSuccess);
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("AllReduce in a graph: communicator")));
  for (cudaGraphExec_t exec : ranks.execs) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST(GraphHang, ARankThatNeverLaunchesItsGraphIsFound) {
  Machine machine({.devices = 2, .seed = 1, .stall_limit = absl::Milliseconds(50)});
  GraphsOfRanks ranks(2);
  EXPECT_EQ(cudaGraphLaunch(ranks.execs[0], ranks.streams[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks.streams[0]), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("AllReduce")));
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("waits for rank 1, which has not launched it")));
  for (cudaGraphExec_t exec : ranks.execs) cudaGraphExecDestroy(exec);
  for (ncclComm_t comm : ranks.comms) ncclCommDestroy(comm);
}

// Two graphs of two collectives each, in crossed orders.
TEST(GraphHang, CrossedCollectivesAreFound) {
  Machine machine({.devices = 2, .seed = 1, .stall_limit = absl::Milliseconds(500)});
  Ranks first(2), second(2);
  cudaGraphExec_t execs[2];
  for (size_t d = 0; d < 2; ++d) {
    execs[d] = Captured(
        first.streams[d],
        [&] {
          for (const Ranks* ranks :
               d == 0 ? std::vector{&first, &second} : std::vector{&second, &first}) {
            EXPECT_EQ(Sum(ranks->data[d], 4, ranks->comms[d], first.streams[d]), ncclSuccess);
          }
        },
        2);
  }
  for (size_t d = 0; d < 2; ++d) {
    EXPECT_EQ(cudaGraphLaunch(execs[d], first.streams[d]), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(first.streams[0]), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("in different orders"), HasSubstr("never ends")));
  for (cudaGraphExec_t exec : execs) cudaGraphExecDestroy(exec);
  for (const Ranks* ranks : {&first, &second}) {
    for (ncclComm_t comm : ranks->comms) ncclCommDestroy(comm);
  }
}

}  // namespace
}  // namespace mp::fake
