// What mp relies on in the CUDA runtime; see fidelity.h.
#include "tests/cuda/fidelity.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mp::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

INSTANTIATE_TEST_SUITE_P(Devices, FidelityTest, ::testing::ValuesIn(Needs(1)));
INSTANTIATE_TEST_SUITE_P(Devices, PairFidelityTest, ::testing::ValuesIn(Needs(2)));

// Streams and events ------------------------------------------------------------------------------

TEST_P(FidelityTest, AnEventIsReadyOnceItsStreamHasComeToIt) {
  OnDevice on(0);
  EXPECT_EQ(cudaEventQuery(on.event), cudaSuccess) << "never recorded";
  Gate gate(on.stream);
  EXPECT_EQ(cudaEventRecord(on.event, on.stream), cudaSuccess);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaEventQuery(on.event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(on.stream), cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());  // "not ready" may or may not stay
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(on.event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(on.event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(on.stream), cudaSuccess);
}

// The stream that waits goes on while the second record is still held up.
TEST_P(FidelityTest, AWaitKeepsTheRecordThatItFound) {
  OnDevice a(0), b(0);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  Gate first(b.stream);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  Gate second(a.stream);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  first.Open();
  EXPECT_EQ(cudaStreamSynchronize(b.stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(a.event), cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());
  second.Open();
  EXPECT_EQ(cudaEventSynchronize(a.event), cudaSuccess);
}

// A later record that passes first, on another stream, is none of its business.
TEST_P(FidelityTest, AWaitIsNotEndedByALaterRecord) {
  OnDevice a(0), b(0), c(0);
  Gate gate(a.stream);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(a.event, c.stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(a.event), cudaSuccess);
  for (int i = 0; i < 20; ++i) {  // long enough for what could run
    EXPECT_EQ(cudaEventRecord(c.event, c.stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(c.event), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(b.stream), cudaErrorNotReady);
    static_cast<void>(cudaGetLastError());
  }
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(b.stream), cudaSuccess);
}

TEST_P(FidelityTest, AWaitHoldsTheOtherStream) {
  OnDevice a(0), b(0);
  a.Write({7, 8});
  Gate gate(a.stream);
  EXPECT_EQ(cudaMemcpyAsync(a.data + 4, a.data, 8, cudaMemcpyDeviceToDevice, a.stream),
            cudaSuccess);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(b.data, a.data + 4, 8, cudaMemcpyDeviceToDevice, b.stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(b.stream), cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());
  gate.Open();
  EXPECT_THAT(b.Read(3), ElementsAre(7, 8, -1));
}

TEST_P(FidelityTest, DestroyedWithWorkQueued) {
  OnDevice on(0);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(on.data, on.data + 1, 4, cudaMemcpyDeviceToDevice, stream),
            cudaSuccess);
  EXPECT_EQ(cudaEventRecord(on.event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(on.event), cudaSuccess);
}

// Devices and errors ------------------------------------------------------------------------------

TEST_P(FidelityTest, ErrorsThatAreNotStickyAreAThreadsOwnAndGoOnceTheyAreSeen) {
  EXPECT_EQ(cudaSetDevice(DeviceCount()), cudaErrorInvalidDevice);
  OnAnotherThread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); });
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0) << "what fails does nothing";
}

TEST_P(FidelityTest, APointerTellsItsDevice) {
  OnDevice on(0);
  cudaPointerAttributes found{};
  EXPECT_EQ(cudaPointerGetAttributes(&found, on.data + 5), cudaSuccess);
  EXPECT_EQ(found.type, cudaMemoryTypeDevice);
  EXPECT_EQ(found.device, 0);
  EXPECT_EQ(cudaPointerGetAttributes(&found, &on), cudaSuccess);
  EXPECT_EQ(found.type, cudaMemoryTypeUnregistered);
}

using PointerQuery = int (*)(void* answer, int attribute, unsigned long long pointer);

PointerQuery FindPointerQuery() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &function, 12000,
                                             cudaEnableDefault, &found),
            cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSuccess);
  return reinterpret_cast<PointerQuery>(function);
}

uint64_t AnswerOf(PointerQuery query, int attribute, const void* data) {
  uint64_t answer = 0;
  EXPECT_EQ(query(&answer, attribute, reinterpret_cast<uintptr_t>(data)), 0);
  return answer;
}

// By the numbers of CUpointer_attribute.
constexpr int kIsLegacy = 10, kRangeStart = 11, kRangeSize = 12, kAccess = 16;

TEST_P(FidelityTest, TheDriverTellsMemoryOfAPoolFromOther) {
  OnDevice on(0);
  const PointerQuery query = FindPointerQuery();
  EXPECT_EQ(AnswerOf(query, kIsLegacy, on.data + 5), 1);
  EXPECT_EQ(AnswerOf(query, kRangeStart, on.data + 5), reinterpret_cast<uintptr_t>(on.data));
  EXPECT_GE(AnswerOf(query, kRangeSize, on.data + 5), OnDevice::kCount * sizeof(int));
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 64, on.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  EXPECT_EQ(AnswerOf(query, kIsLegacy, data), 0);
  EXPECT_EQ(AnswerOf(query, kAccess, data), 3) << "its own device reads and writes it";
  EXPECT_EQ(cudaFreeAsync(data, on.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
}

TEST_P(PairFidelityTest, EachThreadHasItsOwnCurrentDevice) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  int device = -1;
  OnAnotherThread([&device] { EXPECT_EQ(cudaGetDevice(&device), cudaSuccess); });
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_P(PairFidelityTest, EventsAreRecordedOnTheirDeviceAndWaitedForOnAny) {
  OnDevice a(0), b(1);
  a.Write({3, 4});
  Gate gate(a.stream);
  EXPECT_EQ(cudaMemcpyAsync(a.data + 4, a.data, 8, cudaMemcpyDeviceToDevice, a.stream),
            cudaSuccess);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(b.data, a.data + 4, 8, cudaMemcpyDefault, b.stream), cudaSuccess)
      << "with access or without";
  gate.Open();
  EXPECT_THAT(b.Read(3), ElementsAre(3, 4, -1));
}

TEST_P(PairFidelityTest, AccessIsEnabledOnce) {
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 0), cudaSuccess);
  EXPECT_EQ(can, 0) << "a device is no peer of its own";
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  if (can == 0) {
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  } else {
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  }
  static_cast<void>(cudaGetLastError());
}

// Copies ------------------------------------------------------------------------------------------

// Blocks of rows, from a pitch of 3 to one of 8 elements; what lies between stays.
TEST_P(FidelityTest, StridedCopies) {
  OnDevice from(0), to(0);
  std::vector<int> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  from.Write(values);
  EXPECT_EQ(cudaEventRecord(from.event, from.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(to.stream, from.event, 0), cudaSuccess);
  cudaMemcpy3DParms parms{};
  // Two blocks of two rows of two elements, of blocks with four rows.
  parms.srcPtr = {from.data, 12, 12, 4};
  parms.srcPos = {4, 1, 0};
  parms.dstPtr = {to.data, 32, 32, 3};
  parms.dstPos = {12, 0, 0};
  parms.extent = {8, 2, 2};
  parms.kind = cudaMemcpyDeviceToDevice;
  EXPECT_EQ(cudaMemcpy3DAsync(&parms, to.stream), cudaSuccess);
  std::vector<int> expected(OnDevice::kCount, -1);
  for (size_t block = 0; block < 2; ++block) {
    for (size_t row = 0; row < 2; ++row) {
      for (size_t i = 0; i < 2; ++i) {
        expected[(block * 3 + row) * 8 + 3 + i] = values[(block * 4 + row + 1) * 3 + 1 + i];
      }
    }
  }
  EXPECT_EQ(to.Read(OnDevice::kCount), expected);
  EXPECT_EQ(cudaMemcpy2DAsync(to.data, 32, from.data, 12, 8, 3, cudaMemcpyDefault, to.stream),
            cudaSuccess);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 2; ++i) expected[row * 8 + i] = values[row * 3 + i];
  }
  EXPECT_EQ(to.Read(OnDevice::kCount), expected);
  EXPECT_EQ(cudaMemcpy2DAsync(to.data, 4, from.data, 12, 8, 3, cudaMemcpyDefault, to.stream),
            cudaErrorInvalidPitchValue);
  static_cast<void>(cudaGetLastError());
}

TEST_P(FidelityTest, PageableHostMemoryIsTakenAtTheCall) {
  OnDevice on(0);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  int value = 5;
  EXPECT_EQ(cudaMemcpyAsync(on.data, &value, 4, cudaMemcpyHostToDevice, on.stream), cudaSuccess);
  value = 6;
  EXPECT_THAT(on.Read(1), ElementsAre(5));
  EXPECT_EQ(cudaMemcpyAsync(on.data, &value, 0, cudaMemcpyHostToDevice, on.stream), cudaSuccess);
}

// Capture and graphs ------------------------------------------------------------------------------

// a: shift; fork to b; both copy; join; and again with other memory.
TEST_P(FidelityTest, AGraphRunsOnWhatItsMemoryHolds) {
  OnDevice a(0), b(0);
  EXPECT_EQ(cudaStreamSynchronize(b.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(a.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const auto copy = [](int* to, const int* from, cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(to, from, 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  };
  copy(a.data + 1, a.data, a.stream);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  copy(a.data + 2, a.data + 1, a.stream);
  copy(b.data, a.data + 1, b.stream);
  EXPECT_EQ(cudaEventRecord(b.event, b.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(a.stream, b.event, 0), cudaSuccess);
  copy(a.data + 3, b.data, a.stream);
  cudaGraphExec_t exec = Instantiate(a.stream);
  EXPECT_THAT(a.Read(4), Each(-1)) << "nothing has run";
  EXPECT_EQ(cudaGraphUpload(exec, a.stream), cudaSuccess);
  for (int turn = 0; turn < 50; ++turn) {
    a.Write({turn});
    EXPECT_EQ(cudaGraphLaunch(exec, a.stream), cudaSuccess);
    EXPECT_THAT(a.Read(5), ElementsAre(turn, turn, turn, turn, -1));
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

// Begins, does `wrong`, and finds the capture spoilt.
template <class Function>
void ExpectSpoilt(OnDevice& on, Function wrong, cudaError_t expected) {
  EXPECT_EQ(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(wrong(), expected);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(on.stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(on.stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cudaStreamIsCapturing(on.stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  static_cast<void>(cudaGetLastError());
}

TEST_P(FidelityTest, WhatSpoilsACapture) {
  OnDevice on(0), outside(0);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(outside.event, outside.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(outside.stream), cudaSuccess);
  void* more = nullptr;
  ExpectSpoilt(
      on, [&] { return cudaMalloc(&more, 4); }, cudaErrorStreamCaptureUnsupported);
  ExpectSpoilt(
      on, [&] { return cudaStreamSynchronize(on.stream); }, cudaErrorStreamCaptureUnsupported);
  ExpectSpoilt(
      on, [&] { return cudaStreamQuery(on.stream); }, cudaErrorStreamCaptureUnsupported);
  ExpectSpoilt(
      on, [&] { return cudaStreamWaitEvent(on.stream, outside.event, 0); },
      cudaErrorStreamCaptureIsolation);
}

TEST_P(FidelityTest, ACaptureEndsJoinedOnItsThreadAndStream) {
  OnDevice a(0), b(0);
  EXPECT_EQ(cudaStreamSynchronize(b.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(a.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(a.event, a.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b.stream, a.event, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(b.data, a.data, 4, cudaMemcpyDeviceToDevice, b.stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  OnAnotherThread([&] {
    EXPECT_EQ(cudaStreamEndCapture(a.stream, &graph), cudaErrorStreamCaptureWrongThread);
  });
  EXPECT_EQ(cudaStreamEndCapture(a.stream, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  static_cast<void>(cudaGetLastError());
}

// Other threads are not held up by a thread-local capture, nor is who makes calls relaxed.
TEST_P(FidelityTest, ACaptureLetsOthersWork) {
  OnDevice on(0), other(0);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(other.event, other.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const auto work = [&other] {
    EXPECT_EQ(cudaEventSynchronize(other.event), cudaSuccess);
    void* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(more), cudaSuccess);
  };
  OnAnotherThread(work);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  work();
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaGraphExecDestroy(Instantiate(on.stream)), cudaSuccess);
}

// Pools -------------------------------------------------------------------------------------------

TEST_P(FidelityTest, APoolsMemoryIsItsDevicesAlone) {
  OnDevice on(0);
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  for (int device = 0; device < DeviceCount(); ++device) {
    cudaMemAccessFlags flags{};
    cudaMemLocation location{};
    location.type = cudaMemLocationTypeDevice;
    location.id = device;
    EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &location), cudaSuccess);
    EXPECT_EQ(flags, device == 0 ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone);
  }
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 8, on.stream), cudaSuccess);
  on.Write({1, 2});
  EXPECT_EQ(cudaMemcpyAsync(data, on.data, 8, cudaMemcpyDeviceToDevice, on.stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(on.data + 2, data, 8, cudaMemcpyDeviceToDevice, on.stream),
            cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(data, on.stream), cudaSuccess);
  EXPECT_THAT(on.Read(5), ElementsAre(1, 2, 1, 2, -1));
}

}  // namespace
}  // namespace mp::cuda
