// REE-1, SHUT-5: what could wait for mp is refused at once in code that mp runs in the middle of
// its own work, a kernel of the host or the log, and all goes on behind it; and what waits for
// nobody is allowed there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "mp/health.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

auto Refused() { return KindIs(ErrorKind::kUsageError, HasSubstr("must not wait")); }

// Calls everything that could wait, and some of what does not.
void CallEverything(World& world, const Call& call, const Work& work, const Graph& graph,
                    const std::shared_ptr<Backend>& backend) {
  Region& region = world.region();
  const TensorView x = call.input(0);
  for (const absl::Duration timeout : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    EXPECT_THAT(world.stream(0).Synchronize(timeout), Refused());
    EXPECT_THAT(world.stream(1).Record().Synchronize(timeout), Refused());
    EXPECT_THAT(world.Synchronize(timeout), Refused());
    EXPECT_THAT(work.Synchronize(timeout), Refused());
  }
  EXPECT_THAT(world.stream(0).Wait(world.stream(1).Record()), Refused());
  EXPECT_THAT(work.Wait(world.stream(0)), Refused());
  EXPECT_THAT(call.Post(region), Refused());
  EXPECT_THAT(call.Start(region), Refused());
  EXPECT_THAT(region.Capture([](RankRegion&) { return absl::OkStatus(); }), Refused());
  if (Under().graphs) {
    EXPECT_THAT(graph.Launch(), Refused());
  }
  EXPECT_THAT(world.Run([](Rank&) { return absl::OkStatus(); }), Refused());
  EXPECT_THAT(world.Attach(0), Refused());
  EXPECT_THAT(world.NewRegion({0, 1}), Refused());
  EXPECT_THAT(world.Close(), Refused());
  EXPECT_THAT(World::Create(backend), Refused());
  EXPECT_OK(region.status());
  EXPECT_OK(work.status());
  EXPECT_EQ(world.Health().state, WorldHealth::State::kOk);
  EXPECT_FALSE(world.Recent().empty());
  EXPECT_EQ(x.data(), call.input(0).data());
}

class Reentry : public ::testing::Test {
 protected:
  void Make(const WorldOptions& options = {}) {
    backend_ = NewBackend(2);
    world_ = World::Create(backend_, options).value();
    call_ = std::make_unique<Call>(*world_, CallSpec{.kind = OpKind::kAllGather});
    work_ = call_->Start(world_->region()).value()[0];
    if (Under().graphs) {
      graph_ = world_->region().Capture([](RankRegion& one) { return one.AcquireSlot(); }).value();
    }
    EXPECT_OK(world_->Synchronize());
  }
  void CallAll() { CallEverything(*world_, *call_, work_, graph_, backend_); }

  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Call> call_;
  Work work_;
  Graph graph_;
};

TEST_F(Reentry, AKernelIsRefusedWhatCouldWait) {
  SKIP_UNLESS(knows_its_compute);
  Make();
  int ran = 0;
  // In its turn, on whatever thread; and at once, on the thread that drives the rank.
  EXPECT_OK(world_->stream(0).Launch(Under().kernel([&] { CallAll(), ++ran; })));
  EXPECT_OK(world_->Synchronize());
  EXPECT_THAT(Drive(*world_,
                    [&](Rank& rank) -> absl::Status {
                      if (rank.id() == 0) {
                        MP_RETURN_IF_ERROR(rank.stream().Launch(Under().kernel([&] {
                          CallAll(), ++ran;
                          EXPECT_THAT(rank.region().AcquireSlot(), Refused());
                          EXPECT_THAT(rank.NewRegion({0, 1}), Refused());
                          EXPECT_THAT(rank.region().NewBatch().End(), Refused());
                        })));
                      }
                      return call_->Post(rank.region());
                    }),
              Each(IsOk()));
  EXPECT_EQ(ran, 2);
  call_->ExpectDone();
  EXPECT_OK(world_->Close());
}

TEST_F(Reentry, AKernelMayLaunchAnother) {
  SKIP_UNLESS(knows_its_compute);
  Make();
  std::atomic<int> ran{0};
  EXPECT_OK(world_->stream(0).Launch(Under().kernel([&] {
    EXPECT_OK(world_->stream(1).Launch(Under().kernel([&] {
      EXPECT_THAT(world_->Close(), Refused());
      ++ran;
    })));
    EXPECT_THAT(world_->Close(), Refused());
    ++ran;
  })));
  EXPECT_OK(world_->stream(0).Synchronize());
  EXPECT_OK(world_->stream(1).Synchronize());
  EXPECT_EQ(ran, 2);
  EXPECT_OK(world_->Close());  // the thread may wait again
}

// The World stays as it is, with its threads: nobody waits for himself.
TEST_F(Reentry, AKernelDestroysItsWorldWithoutAWait) {
  SKIP_UNLESS(knows_its_compute);
  Make();
  call_.reset();
  Progress over;
  Stream& stream = world_->stream(0);
  EXPECT_OK(stream.Launch(Under().kernel([&] {
    world_.reset();
    over.Add();
  })));
  EXPECT_OK(stream.Synchronize());
  over.AwaitAtLeast(1);
}

TEST_F(Reentry, TheLogIsRefusedWhatCouldWait) {
  int lines = 0;
  Progress logged;
  WorldOptions options{.absence_warning = absl::Milliseconds(5)};
  options.log = [&](absl::string_view) {
    if (lines++ == 0) CallAll();
    logged.Add();
  };
  Make(options);
  EXPECT_THAT(Drive(*world_,
                    [&](Rank& rank) -> absl::Status {
                      if (rank.id() == 1) logged.AwaitAtLeast(1);
                      return call_->Post(rank.region());
                    }),
              Each(IsOk()));
  EXPECT_GE(lines, 1);
  call_->ExpectDone();
  EXPECT_OK(world_->Close());
}

}  // namespace
}  // namespace mp::test
