// What may and what may not be done while streams capture, with CUDA's own codes: forks and joins,
// what is refused and spoils a capture, and which calls the modes forbid to whom.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tests/fake/machine.h"
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

constexpr cudaStreamCaptureMode kModes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};

cudaStreamCaptureStatus StatusOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  return status;
}

// On another thread.
template <class Function>
cudaError_t Elsewhere(Function function) {
  cudaError_t result = cudaSuccess;
  std::thread([&] { result = function(); }).join();
  return result;
}

// Two streams of one device and one of another, an event and some memory.
class CaptureTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  CaptureTest() : machine_({.devices = 2, .seed = GetParam()}) {
    other_ = NewStream(1);
    a_ = NewStream(0);
    b_ = NewStream(0);
    event_ = NewEvent();
    back_ = NewEvent();
    data_ = NewFloats(0, 4);
  }
  ~CaptureTest() override {
    for (cudaStream_t stream : {a_, b_, other_}) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (cudaEvent_t event : {event_, back_}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
    EXPECT_EQ(machine_.Verdict(), "");
  }

  void Begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  }
  // Ends it with this result, and nobody captures any more.
  void End(cudaStream_t stream, cudaError_t expected) {
    auto* graph = reinterpret_cast<cudaGraph_t>(this);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), expected);
    EXPECT_EQ(graph != nullptr, expected == cudaSuccess);
    EXPECT_EQ(expected == cudaSuccess ? cudaGraphDestroy(graph) : cudaSuccess, cudaSuccess);
    for (cudaStream_t it : {a_, b_, other_}) EXPECT_EQ(StatusOf(it), cudaStreamCaptureStatusNone);
  }
  // The same for a capture that has been spoilt.
  void EndSpoilt(cudaStream_t stream) {
    EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(Touch(stream), cudaErrorStreamCaptureInvalidated) << "nothing is recorded any more";
    EXPECT_EQ(cudaEventRecord(event_, stream), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamWaitEvent(stream, event_, 0), cudaErrorStreamCaptureInvalidated);
    End(stream, cudaErrorStreamCaptureInvalidated);
  }
  // One node.
  cudaError_t Touch(cudaStream_t stream) {
    return cudaMemcpyAsync(data_, data_ + 1, 4, cudaMemcpyDeviceToDevice, stream);
  }
  void Arrow(cudaStream_t from, cudaEvent_t event, cudaStream_t to) {
    EXPECT_EQ(cudaEventRecord(event, from), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(to, event, 0), cudaSuccess);
  }

  Machine machine_;
  cudaStream_t a_ = nullptr, b_ = nullptr, other_ = nullptr;
  cudaEvent_t event_ = nullptr, back_ = nullptr;
  float* data_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Seeds, CaptureTest, ::testing::Range<uint64_t>(1, 5));

TEST_P(CaptureTest, ForksAreJoined) {
  Begin(a_);
  EXPECT_EQ(StatusOf(b_), cudaStreamCaptureStatusNone);
  EXPECT_EQ(Touch(a_), cudaSuccess);
  Arrow(a_, event_, b_);
  EXPECT_EQ(StatusOf(b_), cudaStreamCaptureStatusActive);
  EXPECT_EQ(Touch(b_), cudaSuccess);
  Arrow(b_, back_, a_);
  End(a_, cudaSuccess);
}

TEST_P(CaptureTest, AForkThatIsNotJoined) {
  Begin(a_);
  Arrow(a_, event_, b_);
  End(a_, cudaSuccess);  // without work there is nothing to join
  Begin(a_);
  Arrow(a_, event_, b_);
  EXPECT_EQ(Touch(b_), cudaSuccess);
  End(a_, cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
  Begin(a_);
  Arrow(a_, event_, b_);
  EXPECT_EQ(Touch(b_), cudaSuccess);
  Arrow(b_, back_, a_);
  EXPECT_EQ(Touch(b_), cudaSuccess) << "after the join";
  End(a_, cudaErrorStreamCaptureUnjoined);
}

TEST_P(CaptureTest, InfoTellsWhatTheNextNodeComesAfter) {
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamGetCaptureInfo(a_, &status, nullptr, nullptr, nullptr, nullptr, nullptr),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  Begin(a_);
  unsigned long long first = 0, second = 0;
  size_t count = 7;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  EXPECT_EQ(cudaStreamGetCaptureInfo(a_, &status, &first, &graph, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(Touch(a_), cudaSuccess);
  Arrow(a_, event_, b_);
  EXPECT_EQ(Touch(b_), cudaSuccess);
  Arrow(b_, back_, a_);
  EXPECT_EQ(cudaStreamGetCaptureInfo(a_, &status, &second, &graph, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_EQ(first, second);
  EXPECT_EQ(count, 2u) << "its own and the one that it has joined";
  EXPECT_EQ(edges, nullptr);
  EXPECT_NE(nodes[0], nodes[1]);
  End(a_, cudaSuccess);
  Begin(a_);
  EXPECT_EQ(cudaStreamGetCaptureInfo(a_, &status, &second, &graph, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_NE(first, second);
  End(a_, cudaSuccess);
}

TEST_P(CaptureTest, EndsWhereAndByWhomItBegan) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
  for (const cudaStreamCaptureMode mode : kModes) {
    Begin(a_, mode);
    EXPECT_EQ(cudaStreamBeginCapture(a_, mode), cudaErrorIllegalState);
    Arrow(a_, event_, b_);
    EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaErrorStreamCaptureUnmatched);
    const auto end = [&] { return cudaStreamEndCapture(a_, &graph); };
    if (mode == cudaStreamCaptureModeRelaxed) {
      EXPECT_EQ(Elsewhere(end), cudaSuccess);
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    } else {
      EXPECT_EQ(Elsewhere(end), cudaErrorStreamCaptureWrongThread);
      End(a_, cudaSuccess);
    }
  }
}

TEST_P(CaptureTest, WhatIsRecordedOutsideCannotBeWaitedForInside) {
  EXPECT_EQ(cudaEventRecord(event_, b_), cudaSuccess);
  Begin(a_);
  EXPECT_EQ(cudaStreamWaitEvent(a_, event_, 0), cudaErrorStreamCaptureIsolation);
  EndSpoilt(a_);
  Begin(a_);
  EXPECT_EQ(cudaStreamWaitEvent(a_, event_, cudaEventWaitExternal), cudaSuccess);
  End(a_, cudaSuccess);
}

TEST_P(CaptureTest, WhatIsRecordedInsideIsNothingAfterwards) {
  Begin(a_);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  End(a_, cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaErrorCapturedEvent);
  EXPECT_EQ(StatusOf(b_), cudaStreamCaptureStatusNone);
  Begin(b_);
  EXPECT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaErrorStreamCaptureIsolation);
  EndSpoilt(b_);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  EXPECT_EQ(Await(event_), cudaSuccess);
}

TEST_P(CaptureTest, TwoCapturesAreNotMerged) {
  Begin(a_);
  Begin(b_);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(StatusOf(a_), cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
  EndSpoilt(b_);
}

TEST_P(CaptureTest, NobodyAsksForTheStateOfWhatIsCaptured) {
  // Not even who may make unsafe calls.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  const auto refused = [this](auto ask, cudaError_t expected) {
    Begin(a_, cudaStreamCaptureModeRelaxed);
    EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
    EXPECT_EQ(ask(), expected);
    EXPECT_EQ(cudaGetLastError(), expected);
    EndSpoilt(a_);
  };
  refused([this] { return cudaStreamSynchronize(a_); }, cudaErrorStreamCaptureUnsupported);
  refused([this] { return cudaStreamQuery(a_); }, cudaErrorStreamCaptureUnsupported);
  refused([] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);
  refused([this] { return cudaEventQuery(event_); }, cudaErrorCapturedEvent);
  refused([this] { return cudaEventSynchronize(event_); }, cudaErrorCapturedEvent);
  Begin(a_);
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the other device";
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  End(a_, cudaSuccess);
}

// Every unsafe call, under every mode of the capture and of the caller, on its thread and another.
TEST_P(CaptureTest, TheModesForbidUnsafeCalls) {
  const auto malloc_call = [] {
    void* data = nullptr;
    const cudaError_t result = cudaMalloc(&data, 4);
    if (result != cudaSuccess) return result;
    return cudaFree(data);
  };
  const std::vector<std::function<cudaError_t()>> calls = {
      malloc_call,
      [] { return cudaFree(nullptr); },
      [this] { return cudaEventQuery(back_); },
      [this] { return cudaEventSynchronize(back_); },
      [this] { return cudaStreamSynchronize(other_); },
      [this] { return cudaStreamQuery(other_); },
      [this] { return cudaMemcpy(data_, data_ + 1, 4, cudaMemcpyDeviceToDevice); },
      [] { return cudaSetDevice(1), cudaDeviceSynchronize(); },
  };
  for (const cudaStreamCaptureMode capture : kModes) {
    for (const cudaStreamCaptureMode mine : kModes) {
      for (const bool here : {true, false}) {
        const bool forbidden =
            mine != cudaStreamCaptureModeRelaxed &&
            (here ? capture != cudaStreamCaptureModeRelaxed
                  : capture == cudaStreamCaptureModeGlobal && mine == cudaStreamCaptureModeGlobal);
        for (const auto& unsafe : calls) {
          Begin(a_, capture);
          const auto call = [&] {
            cudaStreamCaptureMode mode = mine;
            EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
            const cudaError_t result = unsafe();
            EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
            EXPECT_EQ(mode, mine);
            return result;
          };
          const cudaError_t result = here ? call() : Elsewhere(call);
          EXPECT_EQ(result, forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess)
              << capture << " " << mine << " " << here;
          EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
          forbidden ? EndSpoilt(a_) : End(a_, cudaSuccess);
        }
      }
    }
  }
}

TEST_P(CaptureTest, SafeCallsAreAllowed) {
  Begin(a_, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaEventDestroy(NewEvent()), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(NewStream(0)), cudaSuccess);
  EXPECT_EQ(Touch(b_), cudaSuccess) << "beside it";
  EXPECT_EQ(cudaEventRecord(back_, b_), cudaSuccess);
  End(a_, cudaSuccess);
}

TEST(CaptureEnd, WhatGoesOnIsCounted) {
  Machine machine({.devices = 1});
  cudaStream_t stream = NewStream(0);
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "1 streams left\n1 captures left");
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "1 graphs left\n1 executable graphs left");
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

}  // namespace
}  // namespace mp::fake
