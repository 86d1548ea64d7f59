// What a Backend of GPUs takes and refuses, and how its Worlds stand beside each other.
#include "mp/cuda/backend.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status TryWorld(const Options& options, const std::vector<int>& devices = {}) {
  const auto backend = NewBackend(options);
  if (!backend.ok()) return backend.status();
  return World::Create(*backend, {.devices = devices}).status();
}

class BackendTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(machine_.Verdict(), ""); }

  fake::Machine machine_{{.devices = 4}};
};

// DEV-2
TEST_F(BackendTest, NamesADeviceThatIsNotThere) {
  EXPECT_THAT(TryWorld({.devices = {0, 4}}),
              KindIs(ErrorKind::kInvalidArgument, AllOf(HasSubstr("cuda 4"), HasSubstr("4 GPUs"))));
  EXPECT_THAT(TryWorld({.devices = {-1}}),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("cuda -1")));
}

// DEV-1
TEST_F(BackendTest, NcclTakesAGpuOnceAndSaysWhichIsTwice) {
  EXPECT_THAT(TryWorld({.devices = {1, 3, 1}, .transport = Transport::kNccl}),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr("cuda 1"), HasSubstr("0 and 2"), HasSubstr("NCCL"))));
  EXPECT_THAT(TryWorld({.devices = {1, 3}, .transport = Transport::kNccl}, {1, 0, 0}),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr("cuda 1"), HasSubstr("1 and 2"), HasSubstr("NCCL"))));
}

TEST_F(BackendTest, RanksThatShareAGpuGoWithoutNccl) {
  EXPECT_OK(TryWorld({.devices = {1, 3, 1}}));
  EXPECT_OK(TryWorld({.devices = {1, 3}}, {1, 0, 0}));
  EXPECT_OK(TryWorld({.devices = {0, 1}, .transport = Transport::kDirect}));
  EXPECT_EQ(machine_.calls("ncclCommInitAll"), 0);
  EXPECT_OK(TryWorld({.devices = {0, 1}}));
  EXPECT_EQ(machine_.calls("ncclCommInitAll"), 1);
}

// DEV-3
TEST_F(BackendTest, ARegionHasItsRanksAndTheirDevicesAlone) {
  auto world =
      World::Create(NewBackend({.devices = {2, 0, 3, 1}, .transport = Transport::kNccl}).value())
          .value();
  const fake::Live before = machine_.live();
  Region region = world->NewRegion({3, 0}).value();
  EXPECT_EQ(machine_.live().communicators, before.communicators + 2);
  EXPECT_EQ(machine_.live().streams, before.streams + 2);
  std::vector<Buffer> shards, outputs;
  for (const int rank : {3, 0}) {
    const float mine[] = {10.0f + static_cast<float>(rank)};
    shards.push_back(world->device(rank).Allocate(DType::kF32, {1}).value());
    outputs.push_back(world->device(rank).Allocate(DType::kF32, {2}).value());
    ASSERT_EQ(cudaMemcpy(shards.back().data(), mine, 4, cudaMemcpyHostToDevice), cudaSuccess);
  }
  EXPECT_OK(region.AllGather({shards[0].view(), shards[1].view()},
                             {outputs[0].view(), outputs[1].view()}));
  EXPECT_OK(world->Synchronize());
  for (const Buffer& output : outputs) {
    float got[] = {-1, -1};
    ASSERT_EQ(cudaMemcpy(got, output.data(), 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_THAT(got, ::testing::ElementsAre(13.0f, 10.0f));
  }
}

TEST_F(BackendTest, WithoutNcclItGoesWithout) {
  machine_.FailCallsFrom("ncclGetVersion", 1, ncclSystemError);
  EXPECT_OK(TryWorld({.devices = {0, 1}}));
  EXPECT_EQ(machine_.calls("ncclCommInitAll"), 0);
}

// Ranks without NCCL need each other's memory.
TEST(Backend, SaysWhichGpuDoesNotReachWhich) {
  fake::Machine machine({.devices = 3, .no_access = {{0, 2}, {2, 0}, {1, 2}, {2, 1}}});
  EXPECT_THAT(TryWorld({.devices = {0, 1, 2}, .transport = Transport::kDirect}),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr("cuda 0"), HasSubstr("memory of cuda 2"))));
  EXPECT_THAT(TryWorld({.devices = {2, 0, 2}}), KindIs(ErrorKind::kInvalidArgument));
  EXPECT_OK(TryWorld({.devices = {0, 1, 0}}));
  EXPECT_OK(TryWorld({.devices = {0, 1, 2}}));
  EXPECT_EQ(machine.Verdict(), "");
}

TEST_F(BackendTest, TooManyRanksForOneKernelAreRefused) {
  const std::vector<int> devices(65, 0);
  EXPECT_THAT(TryWorld({.devices = devices}),
              KindIs(ErrorKind::kInvalidArgument, AllOf(HasSubstr("65"), HasSubstr("64"))));
  EXPECT_OK(TryWorld({.devices = std::vector<int>(64, 0)}));
}

TEST_F(BackendTest, TwoOrdersOnOneGpuAreRefused) {
  auto first = NewBackend({.devices = {0, 1}}).value();
  auto world = World::Create(first).value();
  EXPECT_OK(World::Create(first));  // of one order
  EXPECT_THAT(
      TryWorld({.devices = {2, 1}}),
      KindIs(ErrorKind::kUsageError, AllOf(HasSubstr("cuda 1"), HasSubstr("another Backend"))));
  EXPECT_OK(TryWorld({.devices = {2, 3}}));
  EXPECT_OK(TryWorld({.devices = {2, 1}, .transport = Transport::kDirect}));
  EXPECT_OK(TryWorld({.devices = {1}}));
  world.reset();
  first.reset();
  EXPECT_OK(TryWorld({.devices = {2, 1}}));
}

// ERR-7
TEST_F(BackendTest, LaunchesThatBlockRuleNcclOut) {
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  EXPECT_THAT(TryWorld({.devices = {0, 1}, .transport = Transport::kNccl}),
              KindIs(ErrorKind::kUsageError, HasSubstr("CUDA_LAUNCH_BLOCKING")));
  EXPECT_OK(TryWorld({.devices = {0, 1}}));
  EXPECT_EQ(machine_.calls("ncclCommInitAll"), 0);
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "0", 1), 0);
  EXPECT_OK(TryWorld({.devices = {0, 1}, .transport = Transport::kNccl}));
  ASSERT_EQ(unsetenv("CUDA_LAUNCH_BLOCKING"), 0);
}

}  // namespace
}  // namespace mp::cuda
