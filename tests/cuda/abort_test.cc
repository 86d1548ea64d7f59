// What an abort leaves behind: what stood on the aborted operation has failed for ever, though its
// streams have gone on, and nothing is freed under a call that has not come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

class Abort : public ::testing::Test {
 protected:
  void MakeWorld(const WorldOptions& options) {
    if (backend_ == nullptr) {
      backend_ = NewBackend({.devices = {2, 0, 1}, .transport = Transport::kNccl}).value();
    }
    world_ = World::Create(backend_, options).value();
    for (std::vector<TensorView>* views : {&x_, &y_}) {
      views->clear();
      for (int rank = 0; rank < kRanks; ++rank) {
        buffers_.push_back(world_->device(rank).Allocate(DType::kF32, {5}).value());
        views->push_back(buffers_.back().view());
      }
    }
  }
  void TearDown() override {
    buffers_.clear();
    world_.reset();
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  fake::Machine machine_{{.devices = kRanks}};
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<Buffer> buffers_;
  std::vector<TensorView> x_, y_;
};

// ERR-2
TEST_F(Abort, FailsForEverWhatStoodOnTheOperation) {
  MakeWorld({.device_deadline = absl::Milliseconds(50)});
  machine_.StallCollectives(true);
  std::vector<Work> works = world_->region().StartAllReduce(x_).value();
  std::vector<Work> behind = world_->region().StartAllReduce(y_).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_OK(works[r].Wait(world_->stream(rank)));
    EXPECT_OK(world_->stream(rank).Copy(x_[r], y_[r]));
  }
  const auto has_failed = KindIs(ErrorKind::kDeviceError, HasSubstr("device_deadline"));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(world_->stream(rank).Synchronize(), has_failed)
        << "the copy of rank " << rank << " has read what nobody has summed";
  }
  machine_.StallCollectives(false);
  for (int again = 0; again < 2; ++again) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const auto& of_ranks : {works, behind}) {
        const Work& work = of_ranks[static_cast<size_t>(rank)];
        EXPECT_THAT(work.Synchronize(), has_failed);
        EXPECT_TRUE(work.Done());
        EXPECT_THAT(work.status(), has_failed);
        EXPECT_THAT(work.Wait(world_->stream(rank)), has_failed);
      }
    }
    EXPECT_THAT(world_->region().AllReduce(x_), has_failed);
  }
  EXPECT_OK(world_->Close());
  MakeWorld({});
  EXPECT_OK(world_->region().AllReduce(x_));
  EXPECT_OK(world_->Synchronize());
}

// ERR-8
TEST_F(Abort, FreesNothingUnderACallThatDoesNotComeBack) {
  MakeWorld({.close_timeout = absl::Milliseconds(50)});
  const int64_t before = machine_.calls("ncclGroupEnd");
  const int64_t communicators = machine_.live().communicators;
  machine_.StallCall("ncclGroupEnd", 1);
  absl::Status told;
  {
    sync::Thread caller =
        sync::Thread::Start("caller", [&] { told = world_->region().AllReduce(x_); }).value();
    while (machine_.calls("ncclGroupEnd") == before) sync::Yield();
    EXPECT_TRUE(absl::IsDeadlineExceeded(world_->Close()));
    EXPECT_EQ(machine_.calls("ncclCommAbort"), 0);
    EXPECT_EQ(machine_.live().communicators, communicators);
    machine_.Release();
  }
  EXPECT_THAT(told, ::testing::AnyOf(mp::test::IsOk(), KindIs(ErrorKind::kClosed)));
  EXPECT_OK(world_->Close());
  buffers_.clear();
  world_.reset();
  EXPECT_EQ(machine_.live().communicators, 0) << "once the call has come back they are freed";
}

}  // namespace
}  // namespace mp::cuda
