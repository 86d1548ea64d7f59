// What mp relies on in NCCL; see fidelity.h.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/fidelity.h"

namespace mp::cuda {
namespace {

using ::testing::ElementsAre;

ncclResult_t Sum(int* data, size_t count, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(data, data, count, ncclInt32, ncclSum, comm, stream);
}

TEST_P(FidelityTest, ACommunicatorOfOneRank) {
  OnDevice on(0);
  ncclComm_t comm = nullptr;
  const int device = 0;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, &device), ncclSuccess);
  on.Write({1, 2, 3});
  EXPECT_EQ(ncclAllReduce(on.data, on.data + 4, 3, ncclInt32, ncclSum, comm, on.stream),
            ncclSuccess);
  EXPECT_THAT(on.Read(8), ElementsAre(1, 2, 3, -1, 1, 2, 3, -1));
  EXPECT_EQ(Sum(on.data, 0, comm, on.stream), ncclSuccess) << "count 0 is nothing";
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt32, ncclSum, comm, on.stream), ncclSuccess);
  EXPECT_EQ(ncclReduce(on.data, on.data, 3, ncclInt32, ncclSum, 0, comm, on.stream), ncclSuccess);
  EXPECT_EQ(ncclReduce(on.data, on.data, 3, ncclInt32, ncclSum, 1, comm, on.stream),
            ncclInvalidArgument);
  ncclResult_t found = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &found), ncclSuccess);
  EXPECT_EQ(found, ncclSuccess);
  EXPECT_THAT(on.Read(8), ElementsAre(1, 2, 3, -1, 1, 2, 3, -1));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "without a start";
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_P(FidelityTest, ACollectiveInAGraph) {
  OnDevice on(0);
  ncclComm_t comm = nullptr;
  const int device = 0;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, &device), ncclSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(on.stream), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(on.data, on.data + 1, 1, ncclInt32, ncclSum, comm, on.stream),
            ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  cudaGraphExec_t exec = Instantiate(on.stream);
  for (int turn = 0; turn < 20; ++turn) {
    on.Write({turn, -2});
    EXPECT_EQ(cudaGraphLaunch(exec, on.stream), cudaSuccess);
    EXPECT_THAT(on.Read(3), ElementsAre(turn, turn, -1));
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_P(FidelityTest, DevicesOfACommunicatorDiffer) {
  ncclComm_t comms[2] = {};
  const int devices[] = {0, 0};
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
}

// Made and reduced with in one group.
TEST_P(PairFidelityTest, AGroupDoesNotMixWhatItMakesWithCollectives) {
  OnDevice a(0), b(1);
  ncclComm_t comms[2] = {};
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  OnDevice* on[] = {&a, &b};
  ncclComm_t made[2] = {};
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclCommSplit(comms[r], 0, r, &made[r], nullptr), ncclSuccess);
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(Sum(on[r]->data, 1, comms[r], on[r]->stream), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_P(PairFidelityTest, AGroupStartsAllRanksAtItsEnd) {
  OnDevice a(0), b(1);
  ncclComm_t comms[2] = {};
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  OnDevice* on[] = {&a, &b};
  a.Write({1, 2, 3});
  b.Write({10, 20, 30});
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(Sum(on[r]->data, 3, comms[r], on[r]->stream), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a.stream), cudaSuccess) << "nothing was launched yet";
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  for (OnDevice* it : on) EXPECT_THAT(it->Read(4), ElementsAre(11, 22, 33, -1));
  // Each sends to the other one.
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclSend(on[r]->data, static_cast<size_t>(1 + r), ncclInt32, 1 - r, comms[r],
                       on[r]->stream),
              ncclSuccess);
    EXPECT_EQ(ncclRecv(on[r]->data + 4, static_cast<size_t>(2 - r), ncclInt32, 1 - r, comms[r],
                       on[r]->stream),
              ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(a.Read(7), ElementsAre(11, 22, 33, -1, 11, 22, -1));
  EXPECT_THAT(b.Read(7), ElementsAre(11, 22, 33, -1, 11, -1, -1));
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

}  // namespace
}  // namespace mp::cuda
