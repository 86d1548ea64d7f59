// Shows that what the ranks compute behind an operation runs side by side, also where it was queued
// long before: each rank's kernel waits until the others' have begun, which kernels run one after
// the other never see.  A limit of time, far beyond need, ends those.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

constexpr int kRanks = 3;  // and as many threads

// Kernels that are there at the same time.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void Come() {
    sync::Clock& clock = sync::Clock::Steady();
    const absl::Duration end = clock.Now() + absl::Seconds(20);
    there_.fetch_add(1, sync::kSeqCst);
    while (there_.load(sync::kSeqCst) < size_ && clock.Now() < end) sync::Yield();
    met_.fetch_add(there_.load(sync::kSeqCst) == size_ && clock.Now() < end ? 1 : 0, sync::kSeqCst);
  }
  int met() const { return met_.load(sync::kSeqCst); }

 private:
  const int size_;
  sync::Atomic<int> there_{0}, met_{0};
};

class SideBySideTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, NewBackend({.devices = kRanks, .threads = kRanks}));
    ASSERT_OK_AND_ASSIGN(world_, World::Create(backend_));
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_OK_AND_ASSIGN(Buffer buffer, world_->device(rank).Allocate(DType::kF32, {GetParam()}));
      views_.push_back(buffer.view());
      buffers_.push_back(std::move(buffer));
    }
  }
  // Nothing behind this point of the first `ranks` streams runs before the gate is open.
  void CloseGate(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_OK(world_->stream(rank).Launch([this] {
        while (!open_.load(sync::kSeqCst)) sync::Yield();
      }));
    }
  }
  void QueueMeeting() {
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_OK(world_->stream(rank).Launch([this] { meeting_.Come(); }));
    }
  }
  void OpenAndExpectMet() {
    open_.store(true, sync::kSeqCst);
    // A wait with a limit leaves the work to the pool.
    EXPECT_OK(world_->Synchronize(absl::Minutes(2)));
    EXPECT_EQ(meeting_.met(), kRanks);
  }

  sync::Atomic<bool> open_{false};
  Meeting meeting_{kRanks};
  std::shared_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  std::vector<TensorView> views_;
  std::unique_ptr<World> world_;  // goes first: its kernels look at the rest
};

TEST_P(SideBySideTest, BehindAnOperation) {
  CloseGate(kRanks);
  ASSERT_OK(world_->region().AllReduce(views_));
  QueueMeeting();
  OpenAndExpectMet();
}

TEST_P(SideBySideTest, BehindOneEvent) {
  CloseGate(1);
  const Event event = world_->stream(0).Record();
  sync::Atomic<int> came{0};
  for (int rank = 1; rank < kRanks; ++rank) {
    ASSERT_OK(world_->stream(rank).Launch([&came] { came.fetch_add(1, sync::kSeqCst); }));
    ASSERT_OK(world_->stream(rank).Wait(event));
  }
  QueueMeeting();
  // They wait for the event before it comes, as far as one can tell from outside.
  for (int after = 0; after < 1000; after += came.load(sync::kSeqCst) == kRanks - 1) sync::Yield();
  OpenAndExpectMet();
}

// Elements: done by one thread, and shared out.
INSTANTIATE_TEST_SUITE_P(Sizes, SideBySideTest, ::testing::Values(16, 1 << 20));

}  // namespace
}  // namespace mp::host
