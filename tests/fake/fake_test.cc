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
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Options With(int devices) { return {.devices = devices, .seed = GetParam()}; }
};

TEST(NoMachine, AnswersLikeASystemWithoutADriver) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
}

// STR-7
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

TEST_P(FakeTest, SixteenBitNumbersAreFoldedInF32AndScaledOnesRoundedBefore) {
  Machine machine(With(3));
  Ranks ranks(3);
  uint16_t half = 0x3800;  // 0.5
  std::vector<ncclRedOp_t> ops(3);
  const uint16_t numbers[] = {0x6800, 0x3C00, 0x3C00};  // 2048, 1, 1
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&ops[r], &half, ncclFloat16, ncclScalarHostImmediate,
                                       ranks.comms[r]),
              ncclSuccess);
    EXPECT_EQ(cudaMemcpy(ranks.data[r], &numbers[r], 2, cudaMemcpyHostToDevice), cudaSuccess);
  }
  const auto reduce = [&](bool scaled) {
    ncclGroupStart();
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(ncclAllReduce(ranks.data[r], ranks.data[r] + 1, 1, ncclFloat16,
                              scaled ? ops[r] : ncclSum, ranks.comms[r], ranks.streams[r]),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    uint16_t result = 0;
    EXPECT_EQ(cudaStreamSynchronize(ranks.streams[1]), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(&result, ranks.data[1] + 1, 2, cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  };
  EXPECT_EQ(reduce(false), 0x6801);  // 2050, which no rounded step would reach
  EXPECT_EQ(reduce(true), 0x6401);   // 1025
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(ncclRedOpDestroy(ops[r], ranks.comms[r]), ncclSuccess);
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, AReduceIsOnlyWrittenAtItsRoot) {
  Machine machine(With(2));
  Ranks ranks(2);
  for (size_t r = 0; r < 2; ++r) Write(ranks.data[r], {1, 2, 3, 4}, ranks.streams[r]);
  ncclGroupStart();
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclReduce(ranks.data[r], r == 1 ? ranks.data[1] : nullptr, 4, ncclFloat32, ncclProd,
                         1, ranks.comms[r], ranks.streams[r]),
              ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(Read(ranks.data[0], 4, ranks.streams[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Read(ranks.data[1], 4, ranks.streams[1]), ElementsAre(1, 4, 9, 16));
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, ASplitHasItsRanksInTheOrderOfTheirKeys) {
  Machine machine(With(3));
  Ranks ranks(3);
  std::vector<ncclComm_t> made(3);
  ncclGroupStart();
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ncclCommSplit(ranks.comms[static_cast<size_t>(r)], r == 1 ? NCCL_SPLIT_NOCOLOR : 7,
                            -r, &made[static_cast<size_t>(r)], nullptr),
              ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(made[1], nullptr);
  for (size_t r : {0, 2}) Write(ranks.data[r], {static_cast<float>(r)}, ranks.streams[r]);
  ncclGroupStart();
  for (size_t r : {0, 2}) {  // root 0 is what was rank 2
    EXPECT_EQ(ncclReduce(ranks.data[r], ranks.data[r], 1, ncclFloat32, ncclSum, 0, made[r],
                         ranks.streams[r]),
              ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(Read(ranks.data[0], 1, ranks.streams[0]), ElementsAre(0));
  EXPECT_THAT(Read(ranks.data[2], 1, ranks.streams[2]), ElementsAre(2));
  EXPECT_EQ(ncclCommDestroy(made[0]), ncclSuccess);
  EXPECT_EQ(machine.live().communicators, 5) << "siblings are freed together";
  EXPECT_EQ(ncclCommDestroy(made[2]), ncclSuccess);
  EXPECT_EQ(machine.live().communicators, 3);
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, ASplitNeedsAllRanksAndIsNotMixedWithCollectives) {
  Machine machine(With(2));
  Ranks ranks(2);
  ncclComm_t made = nullptr;
  EXPECT_EQ(ncclCommSplit(ranks.comms[0], 0, 0, &made, nullptr), ncclInvalidUsage);
  ncclGroupStart();
  EXPECT_EQ(ncclCommSplit(ranks.comms[0], 0, 0, &made, nullptr), ncclSuccess);
  EXPECT_EQ(Sum(ranks.data[1], 1, ranks.comms[1], ranks.streams[1]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("not all ranks"), HasSubstr("mixes collectives")));
  ranks.Free();
}

TEST_P(FakeTest, WhatStandsStillIsEndedByAnAbort) {
  Machine machine(With(2));
  Ranks ranks(2);
  machine.StallCollectives(true);
  ncclGroupStart();
  for (size_t r = 0; r < 2; ++r) Sum(ranks.data[r], 4, ranks.comms[r], ranks.streams[r]);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  cudaSetDevice(0);
  cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventRecord(event, ranks.streams[0]), cudaSuccess);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  machine.ReportFromNccl(ncclRemoteError);
  ncclResult_t found = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(ranks.comms[1], &found), ncclSuccess);
  EXPECT_EQ(found, ncclRemoteError);
  ranks.Free(true);
  EXPECT_EQ(Await(event), cudaSuccess);
  cudaEventDestroy(event);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(FakeTest, ACallFailsWhereTheTestWantsIt) {
  Machine machine(With(2));
  Ranks ranks(2);
  machine.FailCall("cudaGetDevice", 2, cudaErrorMemoryAllocation);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  machine.FailCall("ncclAllReduce", 2, ncclInternalError);
  ncclGroupStart();
  EXPECT_EQ(Sum(ranks.data[0], 1, ranks.comms[0], ranks.streams[0]), ncclSuccess);
  EXPECT_EQ(Sum(ranks.data[1], 1, ranks.comms[1], ranks.streams[1]), ncclInternalError);
  EXPECT_EQ(ncclGroupEnd(), ncclInternalError) << "and nothing is launched";
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

// An allocation between two devices' launches of one collective can never return.
TEST(Hang, AnAllocationBetweenTheLaunchesOfACollectiveIsFound) {
  Machine machine({.devices = 2, .seed = 1, .stall_limit = absl::Milliseconds(50)});
  Ranks ranks(2);
  EXPECT_EQ(Sum(ranks.data[0], 1, ranks.comms[0], ranks.streams[0]), ncclSuccess);
  cudaSetDevice(0);
  cudaEvent_t event = NewEvent();
  while (machine.busy(0) == false) cudaEventQuery(event);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("which has not launched it")));
  cudaEventDestroy(event);
  for (ncclComm_t comm : ranks.comms) ncclCommDestroy(comm);
}

TEST_P(FakeTest, PointersTellTheirDevice) {
  Machine machine(With(2));
  float* data = NewFloats(1, 4);
  float host = 0;
  cudaPointerAttributes found{};
  EXPECT_EQ(cudaPointerGetAttributes(&found, data + 3), cudaSuccess);
  EXPECT_EQ(found.type, cudaMemoryTypeDevice);
  EXPECT_EQ(found.device, 1);
  EXPECT_EQ(cudaPointerGetAttributes(&found, &host), cudaSuccess);
  EXPECT_EQ(found.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// Code of the program on one stream does not wait for that on another.
TEST_P(FakeTest, FunctionsOfTheHostRunBesideEachOther) {
  Machine machine(With(1));
  cudaStream_t streams[] = {NewStream(0), NewStream(0)};
  cudaEvent_t event = NewEvent();
  std::atomic<int> open{0};
  const auto wait = [](void* gate) {
    while (*static_cast<std::atomic<int>*>(gate) == 0) std::this_thread::yield();
    EXPECT_TRUE(Machine::RunsThisThread());
  };
  const auto raise = [](void* gate) { ++*static_cast<std::atomic<int>*>(gate); };
  EXPECT_EQ(cudaLaunchHostFunc(streams[0], wait, &open), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, streams[0]), cudaSuccess);
  EXPECT_EQ(cudaLaunchHostFunc(streams[1], raise, &open), cudaSuccess);
  EXPECT_EQ(Await(event), cudaSuccess);
  cudaEventDestroy(event);
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  EXPECT_EQ(machine.Verdict(), "");
  EXPECT_FALSE(Machine::RunsThisThread());
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

// Two collectives on two streams of each device, queued in crossed orders, which is always found.
// Whether they would hang is the hardware's choice, so over the seeds some must find it, and those
// must name both.
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
    ASSERT_FALSE(findings.empty());
    EXPECT_THAT(findings[0], HasSubstr("devices 1 and 0 get it and another one in different"));
    if (findings.size() > 1) {
      ++found;
      EXPECT_THAT(findings, ElementsAre(_, HasSubstr("never ends")));
      EXPECT_THAT(findings[1], HasSubstr("waits for rank 0, which is queued"));
      EXPECT_THAT(findings[1], HasSubstr("waits for rank 1, which is queued"));
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
