// The fake machine behaves as hardware does where tests rely on it: streams run later than the
// call, waits keep the record that they found, groups launch at their end, and what would hang is
// found. Each test runs over several seeds, of which even ones let queues grow.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/machine.h"

namespace mp::fake {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cudaStream_t NewStream(int device) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

float* NewFloats(int device, size_t count) {
  void* data = nullptr;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, count * sizeof(float)), cudaSuccess);
  return static_cast<float*>(data);
}

void Write(float* target, const std::vector<float>& values, cudaStream_t stream) {
  EXPECT_EQ(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(float),
                            cudaMemcpyHostToDevice, stream),
            cudaSuccess);
}

std::vector<float> Read(const float* source, size_t count, cudaStream_t stream) {
  std::vector<float> values(count);
  EXPECT_EQ(
      cudaMemcpyAsync(values.data(), source, count * sizeof(float), cudaMemcpyDeviceToHost, stream),
      cudaSuccess);
  return values;
}

cudaError_t Await(cudaEvent_t event) {
  cudaError_t result = cudaEventQuery(event);
  for (; result == cudaErrorNotReady; result = cudaEventQuery(event)) std::this_thread::yield();
  return result;
}

ncclResult_t Sum(float* data, size_t count, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
}

class FakeTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Options With(int devices) { return {.devices = devices, .seed = GetParam()}; }
};

TEST(NoMachine, AnswersLikeASystemWithoutADriver) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
}

TEST_P(FakeTest, AnEventIsNotReadyBeforeItsStreamHasComeToIt) {
  Machine machine(With(1));
  cudaStream_t stream = NewStream(0);
  cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "never recorded";
  std::atomic<bool> open{false};
  const auto wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  EXPECT_EQ(cudaLaunchHostFunc(stream, wait, &open), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  open = true;
  EXPECT_EQ(Await(event), cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, AWaitKeepsTheRecordThatItFound) {
  Machine machine(With(2));
  cudaStream_t a = NewStream(0);
  cudaEvent_t event = NewEvent();
  cudaStream_t b = NewStream(1);
  cudaEvent_t passed = NewEvent();
  // a waits for b's mark behind b's wait for the first record of a: only if that wait were for the
  // second record could this not end.
  EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(passed, b), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(a, passed, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
  EXPECT_EQ(Await(event), cudaSuccess);
  for (cudaEvent_t it : {event, passed}) cudaEventDestroy(it);
  for (cudaStream_t it : {a, b}) cudaStreamDestroy(it);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, AllReduceSumsOnceAllRanksAreInTheGroup) {
  Machine machine(With(2));
  ncclComm_t comms[2];
  const int devices[] = {1, 0};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  cudaStream_t streams[] = {NewStream(1), NewStream(0)};
  float* data[] = {NewFloats(1, 3), NewFloats(0, 3)};
  Write(data[0], {1, 2, 3}, streams[0]);
  Write(data[1], {10, 20, 30}, streams[1]);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(Sum(data[r], 3, comms[r], streams[r]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int r = 0; r < 2; ++r) EXPECT_THAT(Read(data[r], 3, streams[r]), ElementsAre(11, 22, 33));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclCommDestroy(comms[r]), ncclSuccess);
    EXPECT_EQ(cudaFree(data[r]), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(streams[r]), cudaSuccess);
  }
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, DuplicateDevicesAreRefused) {
  Machine machine(With(2));
  ncclComm_t comms[2];
  const int devices[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
  EXPECT_THAT(machine.Verdict(), HasSubstr("duplicate device"));
}

TEST_P(FakeTest, AHostPointerWhereADeviceOneIsDueIsCaught) {
  Machine machine(With(1));
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 2);
  float host[2] = {};
  EXPECT_EQ(cudaMemcpyAsync(data, host, sizeof host, cudaMemcpyDeviceToDevice, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(data, host, 12, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("source not device memory"),
                                              HasSubstr("target beyond its allocation")));
  cudaFree(data);
  cudaStreamDestroy(stream);
}

TEST_P(FakeTest, WhatIsLeftIsCounted) {
  Machine machine(With(1));
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 5);
  EXPECT_EQ(machine.Verdict(), "1 streams left\n1 allocations left\n20 bytes left");
  cudaFree(data);
  cudaStreamDestroy(stream);
}

// Two collectives on two streams of each device, queued in crossed orders.  Whether they would hang
// is the hardware's choice, so over the seeds some must find it, and those must name both.
TEST(Hang, CrossedCollectivesAreFound) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Machine machine({.devices = 2, .seed = seed});
    ncclComm_t comms[2][2];
    const int devices[] = {0, 1};
    cudaStream_t streams[2][2];
    float* data[2];
    for (auto& pair : comms) ASSERT_EQ(ncclCommInitAll(pair, 2, devices), ncclSuccess);
    for (int d = 0; d < 2; ++d) {
      for (int c = 0; c < 2; ++c) streams[c][d] = NewStream(d);
      data[d] = NewFloats(d, 1);
    }
    // (communicator, device), device 1 the other way round.
    const int order[][2] = {{0, 0}, {1, 1}, {1, 0}, {0, 1}};
    for (const auto& [c, d] : order) Sum(data[d], 1, comms[c][d], streams[c][d]);
    for (auto& pair : streams) {
      for (cudaStream_t stream : pair) cudaStreamSynchronize(stream);
    }
    const std::vector<std::string> findings = machine.findings();
    if (!findings.empty()) {
      ++found;
      EXPECT_THAT(findings, ElementsAre(HasSubstr("never ends")));
      EXPECT_THAT(findings[0], HasSubstr("waits for rank 0, which is queued"));
      EXPECT_THAT(findings[0], HasSubstr("waits for rank 1, which is queued"));
      EXPECT_EQ(cudaStreamSynchronize(streams[0][0]), cudaErrorLaunchTimeout);
    }
    for (auto& pair : comms) {
      for (ncclComm_t comm : pair) ncclCommDestroy(comm);
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Hang, ARankThatNeverLaunchesIsFound) {
  Machine machine({.devices = 2, .seed = 1, .stall_limit = absl::Milliseconds(50)});
  ncclComm_t comms[2];
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 1);
  EXPECT_EQ(Sum(data, 1, comms[0], stream), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("waits for rank 1, which has not launched it")));
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FakeTest, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace mp::fake
