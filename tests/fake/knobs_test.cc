// What a test can do to a call: let it fail, stall, lie, be late, leave another device current; and
// the machine's limits.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/fake/machine.h"
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

using ::testing::ElementsAre;

class KnobsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Options With(int devices) { return {.devices = devices, .seed = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Seeds, KnobsTest, ::testing::Range<uint64_t>(1, 5));

TEST_P(KnobsTest, CallsFailFromOneOn) {
  Machine machine(With(1));
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  machine.FailCallsFrom("cudaGetDevice", 3, cudaErrorMemoryAllocation);
  for (int call = 1; call <= 6; ++call) {
    EXPECT_EQ(cudaGetDevice(&device), call < 3 ? cudaSuccess : cudaErrorMemoryAllocation);
  }
  machine.FailCallsFrom("ncclGroupStart", 1, ncclSystemError);
  EXPECT_EQ(ncclGroupStart(), ncclSystemError);
  EXPECT_EQ(ncclGroupStart(), ncclSystemError);
  machine.FailCall("cudaGetDevice", 1, cudaErrorMemoryAllocation);
  machine.Heal();
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(KnobsTest, ACallStallsUntilItIsReleased) {
  Machine machine(With(1));
  machine.StallCall("cudaMalloc", 2);
  float* first = NewFloats(0, 1);
  std::atomic<bool> returned{false};
  std::thread other([&] {
    EXPECT_EQ(cudaFree(NewFloats(0, 1)), cudaSuccess);
    returned = true;
  });
  while (machine.calls("cudaMalloc") < 2) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(cudaFree(NewFloats(0, 1)), cudaSuccess) << "others go on";
    EXPECT_FALSE(returned);
  }
  machine.Release();
  other.join();
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(KnobsTest, ALieDoesNothing) {
  Machine machine(With(2));
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 2);
  Write(data, {1, 2}, stream);
  machine.LieInCall("cudaMemcpyAsync", 1);
  EXPECT_EQ(cudaMemcpyAsync(data, data + 1, 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  EXPECT_THAT(Read(data, 2, stream), ElementsAre(1, 2));
  Ranks ranks(2);
  for (size_t r = 0; r < 2; ++r) Write(ranks.data[r], {5}, ranks.streams[r]);
  machine.LieInCall("ncclGroupEnd", 1);
  for (const float expected : {5.0F, 10.0F}) {
    ncclGroupStart();
    for (size_t r = 0; r < 2; ++r) Sum(ranks.data[r], 1, ranks.comms[r], ranks.streams[r]);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_THAT(Read(ranks.data[r], 1, ranks.streams[r]), ElementsAre(expected));
    }
  }
  ranks.Free();
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// A copy, a collective by its call, one by its group's end.
TEST_P(KnobsTest, WhatIsLateRunsOnceItIsReleased) {
  for (const char* name : {"cudaMemcpyAsync", "ncclAllReduce", "ncclGroupEnd"}) {
    Machine machine(With(2));
    Ranks ranks(2);
    cudaSetDevice(0);
    cudaEvent_t before = NewEvent(), after = NewEvent();
    for (size_t r = 0; r < 2; ++r) Write(ranks.data[r], {1, 2}, ranks.streams[r]);
    EXPECT_EQ(cudaEventRecord(before, ranks.streams[0]), cudaSuccess);
    machine.DelayCall(name, 1);
    EXPECT_EQ(cudaMemcpyAsync(ranks.data[0], ranks.data[0] + 1, 4, cudaMemcpyDeviceToDevice,
                              ranks.streams[0]),
              cudaSuccess);
    ncclGroupStart();
    for (size_t r = 0; r < 2; ++r) Sum(ranks.data[r], 1, ranks.comms[r], ranks.streams[r]);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(cudaEventRecord(after, ranks.streams[0]), cudaSuccess);
    EXPECT_EQ(Await(before), cudaSuccess);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaEventQuery(after), cudaErrorNotReady);
    machine.Release();
    EXPECT_EQ(Await(after), cudaSuccess);
    EXPECT_THAT(Read(ranks.data[1], 1, ranks.streams[1]), ElementsAre(3));
    for (cudaEvent_t event : {before, after}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    ranks.Free();
    EXPECT_EQ(machine.Verdict(), "") << name;
  }
}

TEST_P(KnobsTest, ACallLeavesAnotherDevice) {
  Machine machine(With(3));
  cudaStream_t stream = NewStream(0);
  machine.LeaveDevice("cudaStreamSynchronize", 2, 2);
  int device = -1;
  for (const int expected : {0, 2, 2}) {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, expected);
  }
  machine.LeaveDevice("ncclGroupEnd", 1, 1);
  ncclGroupStart();
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(KnobsTest, AFullQueueHoldsTheCallUp) {
  Options options = With(1);
  options.launch_queue = 4;
  Machine machine(options);
  cudaStream_t stream = NewStream(0);
  float* data = NewFloats(0, 2);
  std::atomic<bool> open{false};
  const auto wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  EXPECT_EQ(cudaLaunchHostFunc(stream, wait, &open), cudaSuccess);
  std::atomic<int> queued{1};
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(cudaMemcpyAsync(data, data + 1, 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
      ++queued;
    }
  });
  while (machine.calls("cudaMemcpyAsync") < 4) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(queued, 4);
  open = true;
  other.join();
  EXPECT_EQ(queued, 11);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

// As real drivers may do.
TEST_P(KnobsTest, AllocationsNeedNotWait) {
  Options options = With(2);
  options.allocations_wait = false;
  Machine machine(options);
  Ranks ranks(2);
  EXPECT_EQ(Sum(ranks.data[0], 1, ranks.comms[0], ranks.streams[0]), ncclSuccess);
  cudaSetDevice(0);
  cudaEvent_t event = NewEvent();
  while (!machine.busy(0)) cudaEventQuery(event);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4), cudaSuccess);
  EXPECT_EQ(Sum(ranks.data[1], 1, ranks.comms[1], ranks.streams[1]), ncclSuccess);
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

}  // namespace
}  // namespace mp::fake
