// ABS-1: a launched operation that stands still is told to everyone after device_deadline, and
// what can be aborted is.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/interop.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 3;

class Deadline : public ::testing::Test {
 protected:
  std::unique_ptr<World> NewWorld(const std::vector<int>& devices, Transport transport) {
    if (backend_ == nullptr)
      backend_ = NewBackend({.devices = devices, .transport = transport}).value();
    return World::Create(backend_, {.device_deadline = absl::Milliseconds(50)}).value();
  }
  std::vector<Buffer> NewBuffers(World& world) {
    std::vector<Buffer> buffers;
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(world.device(rank).Allocate(DType::kF32, {5}).value());
    }
    return buffers;
  }
  // What each rank is told by its call, else by its wait.
  std::vector<absl::Status> AllReduce(World& world, const std::vector<Buffer>& buffers) {
    std::vector<absl::Status> told(kRanks);
    const absl::Status ran = world.Run([&](Rank& rank) {
      const auto id = static_cast<size_t>(rank.id());
      told[id] = rank.region().AllReduce(buffers[id].view());
      if (told[id].ok()) told[id] = rank.stream().Synchronize();
      return absl::OkStatus();
    });
    EXPECT_TRUE(ran.ok() || KindOf(ran) == ErrorKind::kDeviceLost) << ran;
    return told;
  }

  fake::Machine machine_{{.devices = kRanks}};
  std::shared_ptr<Backend> backend_;
};

TEST_F(Deadline, OfACollectiveThatStandsAbortsAll) {
  auto world = NewWorld({2, 0, 1}, Transport::kNccl);
  std::vector<Buffer> buffers = NewBuffers(*world);
  auto two = std::make_unique<Region>(world->NewRegion({0, 1}).value());
  ASSERT_THAT(AllReduce(*world, buffers), Each(mp::test::IsOk()));
  machine_.StallCollectives(true);
  const auto cause =
      AllOf(HasSubstr("has not moved for 50ms (device_deadline)"), HasSubstr("compute stream"));
  EXPECT_THAT(AllReduce(*world, buffers), Each(KindIs(ErrorKind::kDeviceError, cause)));
  EXPECT_THAT(world->region().status(), KindIs(ErrorKind::kDeviceError, cause));
  EXPECT_THAT(two->status(), KindIs(ErrorKind::kDeviceError, cause));
  // The whole, the Region of all and that of two.
  EXPECT_EQ(machine_.calls("ncclCommAbort"), 2 * kRanks + 2);
  machine_.StallCollectives(false);
  EXPECT_OK(world->Close());
  buffers.clear();
  world.reset();
  world = NewWorld({2, 0, 1}, Transport::kNccl);
  buffers = NewBuffers(*world);
  EXPECT_THAT(AllReduce(*world, buffers), Each(mp::test::IsOk()));
  buffers.clear();
  two.reset();
  world.reset();
  backend_.reset();
  EXPECT_EQ(machine_.Verdict(), "");
}

// Nothing can abort it: who waits is told, what it may still use is left as it is, and the GPU
// takes nothing more.
TEST_F(Deadline, OfAKernelThatNeverEndsLetsEveryoneGo) {
  auto world = NewWorld({0, 0, 0}, Transport::kAuto);
  std::vector<Buffer> buffers = NewBuffers(*world);
  ASSERT_THAT(AllReduce(*world, buffers), Each(mp::test::IsOk()));
  machine_.DelayCall("cudaLaunchKernel", 1);
  EXPECT_THAT(AllReduce(*world, buffers),
              Each(KindIs(ErrorKind::kDeviceError, HasSubstr("has not moved for 50ms"))));
  EXPECT_THAT(world->device(0).Allocate(DType::kF32, {5}).status(),
              KindIs(ErrorKind::kDeviceLost, HasSubstr("cuda 0")));
  EXPECT_THAT(World::Create(backend_).status(),
              KindIs(ErrorKind::kDeviceLost, HasSubstr("restart the process")));
  EXPECT_TRUE(absl::IsDeadlineExceeded(world->Close()));
  buffers.clear();
  world.reset();
  backend_.reset();
  EXPECT_GE(machine_.live().allocations, kRanks) << "the buffers, which the kernel may still use";
  machine_.Release();
  EXPECT_THAT(machine_.findings(), IsEmpty());
}

// Who waits for the compute streams waits for what stands on the Region's own.
TEST_F(Deadline, LetsGoOfThoseWhoWaitBehindAnotherStream) {
  auto world = NewWorld({0, 0, 0}, Transport::kAuto);
  std::vector<Buffer> buffers = NewBuffers(*world);
  ASSERT_THAT(AllReduce(*world, buffers), Each(mp::test::IsOk()));
  machine_.DelayCall("cudaLaunchKernel", 1);
  std::vector<TensorView> views;
  for (const Buffer& buffer : buffers) views.push_back(buffer.view());
  const std::vector<Work> works = world->region().StartAllReduce(views).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_OK(works[static_cast<size_t>(rank)].Wait(world->stream(rank)));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(world->stream(rank).Synchronize(),
                KindIs(ErrorKind::kDeviceError, HasSubstr("stream of Region \"world\"")));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(world->Close()));
  buffers.clear();
  world.reset();
  backend_.reset();
  EXPECT_GE(machine_.live().allocations, kRanks);
  machine_.Release();
  EXPECT_THAT(machine_.findings(), IsEmpty());
}

// A stream of the application's own is behind it.
TEST_F(Deadline, LetsGoOfWhoWaitsForAWrappedStream) {
  cudaStream_t handle = nullptr;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess);
  auto world = NewWorld({0, 1, 2}, Transport::kNccl);
  std::vector<Buffer> buffers = NewBuffers(*world);
  std::vector<TensorView> views;
  for (const Buffer& buffer : buffers) views.push_back(buffer.view());
  auto mine = WrapStream(world->device(0), handle).value();
  machine_.StallCollectives(true);
  std::vector<Work> works = world->region().StartAllReduce(views).value();
  EXPECT_OK(works[0].Wait(*mine));
  EXPECT_OK(mine->Synchronize()) << "a Work tells";
  EXPECT_THAT(works[0].status(), KindIs(ErrorKind::kDeviceError, HasSubstr("device_deadline")));
  machine_.StallCollectives(false);
  mine.reset();
  works.clear();
  EXPECT_EQ(cudaStreamDestroy(handle), cudaSuccess);
  EXPECT_OK(world->Close());
  buffers.clear();
  world.reset();
  backend_.reset();
  EXPECT_EQ(machine_.Verdict(), "");
}

}  // namespace
}  // namespace mp::cuda
