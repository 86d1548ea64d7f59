// Sends and receives between ranks: they run at the group's end, meet in their order, and what
// would wait for ever is found.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <vector>

#include "tests/fake/machine.h"
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TransferTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Options With(int devices) { return {.devices = devices, .seed = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Seeds, TransferTest, ::testing::Range<uint64_t>(1, 9));

// A gather of uneven shards to rank 1, itself included, beside a sum in the same group.
TEST_P(TransferTest, AGatherToOneRank) {
  Machine machine(With(3));
  Ranks ranks(3);
  cudaSetDevice(1);
  float* all = NewFloats(1, 6);
  std::vector<float*> sums;
  for (int r = 0; r < 3; ++r) sums.push_back(NewFloats(r, 1));
  for (int turn = 0; turn < 5; ++turn) {
    for (size_t r = 0; r < 3; ++r) {
      const float base = static_cast<float>(100 * turn) + 10 * static_cast<float>(r);
      Write(ranks.data[r], {base + 1, base + 2, base + 3}, ranks.streams[r]);
      Write(sums[r], {base}, ranks.streams[r]);
    }
    ncclGroupStart();
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(ncclSend(ranks.data[r], r + 1, ncclFloat32, 1, ranks.comms[r], ranks.streams[r]),
                ncclSuccess);
      EXPECT_EQ(Sum(sums[r], 1, ranks.comms[r], ranks.streams[r]), ncclSuccess);
      EXPECT_EQ(ncclRecv(all + r * (r + 1) / 2, r + 1, ncclFloat32, static_cast<int>(r),
                         ranks.comms[1], ranks.streams[1]),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    const float t = static_cast<float>(100 * turn);
    EXPECT_THAT(Read(all, 6, ranks.streams[1]),
                ElementsAre(t + 1, t + 11, t + 12, t + 21, t + 22, t + 23));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_THAT(Read(sums[r], 1, ranks.streams[r]), ElementsAre(3 * t + 30));
    }
  }
  EXPECT_EQ(cudaFree(all), cudaSuccess);
  for (float* it : sums) EXPECT_EQ(cudaFree(it), cudaSuccess);
  ncclComm_t made[3] = {};
  ncclGroupStart();  // nothing is left under way
  for (size_t r = 0; r < 3; ++r)
    ncclCommSplit(ranks.comms[r], NCCL_SPLIT_NOCOLOR, 0, &made[r], nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(TransferTest, GroupsOfDifferentThreadsMeet) {
  Machine machine(With(2));
  Ranks ranks(2);
  for (size_t r = 0; r < 2; ++r) {
    Write(ranks.data[r], {static_cast<float>(r + 1), 0}, ranks.streams[r]);
  }
  for (size_t r = 0; r < 2; ++r) {
    const int peer = 1 - static_cast<int>(r);
    ncclGroupStart();
    EXPECT_EQ(ncclSend(ranks.data[r], 1, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]),
              ncclSuccess);
    EXPECT_EQ(ncclRecv(ranks.data[r] + 1, 1, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]),
              ncclSuccess);
    EXPECT_EQ(ncclSend(nullptr, 0, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]),
              ncclSuccess);
    EXPECT_EQ(ncclRecv(nullptr, 0, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]),
              ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  EXPECT_THAT(Read(ranks.data[0], 2, ranks.streams[0]), ElementsAre(1, 2));
  EXPECT_THAT(Read(ranks.data[1], 2, ranks.streams[1]), ElementsAre(2, 1));
  ranks.Free();
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_P(TransferTest, SizesMustBeAlike) {
  Machine machine(With(2));
  Ranks ranks(2);
  ncclGroupStart();
  ncclSend(ranks.data[0], 4, ncclFloat32, 1, ranks.comms[0], ranks.streams[0]);
  ncclRecv(ranks.data[1], 3, ncclFloat32, 0, ranks.comms[1], ranks.streams[1]);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << "nobody looks";
  EXPECT_EQ(cudaStreamSynchronize(ranks.streams[1]), cudaSuccess);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("rank 0 sends 16 bytes and rank 1 receives 12")));
  ranks.Free();
}

TEST_P(TransferTest, WrongArgumentsAreRefused) {
  Machine machine(With(2));
  Ranks ranks(2);
  float host = 0;
  EXPECT_EQ(ncclSend(&host, 1, ncclFloat32, 1, ranks.comms[0], ranks.streams[0]),
            ncclInvalidArgument);
  EXPECT_EQ(ncclSend(ranks.data[0], 1, ncclFloat32, 2, ranks.comms[0], ranks.streams[0]),
            ncclInvalidArgument);
  EXPECT_EQ(ncclRecv(ranks.data[0], 1, ncclFloat32, 1, ranks.comms[0], ranks.streams[1]),
            ncclInvalidArgument);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("no device memory"), HasSubstr("no such peer"),
                          HasSubstr("a stream of another device")));
  ranks.Free();
}

TEST(TransferHang, AReceiveThatNeverComesIsFound) {
  Machine machine({.devices = 2, .seed = 1, .stall_limit = absl::Milliseconds(50)});
  Ranks ranks(2);
  EXPECT_EQ(ncclSend(ranks.data[0], 1, ncclFloat32, 1, ranks.comms[0], ranks.streams[0]),
            ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks.streams[0]), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(),
              ElementsAre(HasSubstr("waits for rank 1 to receive, which has not launched it")));
  for (ncclComm_t comm : ranks.comms) ncclCommDestroy(comm);
}

// Each sends before it receives, not in a group: as kernels one after the other.
TEST(TransferHang, SendsThatCrossAreFound) {
  Machine machine({.devices = 2});
  Ranks ranks(2);
  for (size_t r = 0; r < 2; ++r) {
    const int peer = 1 - static_cast<int>(r);
    ncclSend(ranks.data[r], 1, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]);
    ncclRecv(ranks.data[r] + 1, 1, ncclFloat32, peer, ranks.comms[r], ranks.streams[r]);
  }
  EXPECT_EQ(cudaStreamSynchronize(ranks.streams[0]), cudaErrorLaunchTimeout);
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("never ends")));
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("to receive, which is queued")));
  for (ncclComm_t comm : ranks.comms) ncclCommDestroy(comm);
}

}  // namespace
}  // namespace mp::fake
