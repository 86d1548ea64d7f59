// FORK-1: a child that fork() has made is told at once that what its parent made is not its to use,
// whatever locks were held at that moment; it lets go of all of it and ends without a wait; and
// the parent goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mp/health.h"
#include "tests/contract/drive.h"
#include "tests/support/child.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// What is wrong with what a child was told; "" where it is right.
class Refusals {
 public:
  void Add(const char* call, const absl::Status& status) {
    if (KindOf(status) == ErrorKind::kUsageError && absl::StrContains(status.message(), "fork")) {
      return;
    }
    absl::StrAppend(&wrong_, call, ": ", status.ToString(), "\n");
  }
  template <typename T>
  void Add(const char* call, const absl::StatusOr<T>& result) {
    Add(call, result.status());
  }
  void Expect(const char* what, bool right) {
    if (!right) absl::StrAppend(&wrong_, what, "\n");
  }
  const std::string& wrong() const { return wrong_; }

 private:
  std::string wrong_;
};

#define REFUSED(call) refusals.Add(#call, call)

// Every public call, then the end of every object.
std::string CallEverything(std::shared_ptr<Backend> backend, std::unique_ptr<World> world,
                           Attachment attached, std::vector<Buffer> buffers, Work work,
                           std::unique_ptr<Stream> stream, Graph graph) {
  Refusals refusals;
  const TensorView x = buffers[0].view(), y = buffers[1].view();
  REFUSED(World::Create(backend));
  REFUSED(world->Run([](Rank&) { return absl::OkStatus(); }));
  REFUSED(world->Attach(1));
  REFUSED(world->NewRegion({0, 1}));
  REFUSED(world->Synchronize());
  REFUSED(world->Close());
  refusals.Expect("Recent", world->Recent().empty());
  const WorldHealth health = world->Health();
  refusals.Expect("Health", health.kind == ErrorKind::kUsageError);
  REFUSED(attached->NewStream());
  REFUSED(attached->NewRegion({0, 1}));
  for (RankRegion* region : {&attached->region(), &attached->region(Axis::kTensor)}) {
    REFUSED(region->AllReduce(x));
    REFUSED(region->AllReduce(x, y));
    REFUSED(region->Gather(x, y, 0));
    REFUSED(region->AllGather(x, y));
    REFUSED(region->AcquireSlot());
    REFUSED(region->StartAllReduce(x));
    REFUSED(region->StartGather(x, y, 0));
    REFUSED(region->StartAllGather(x, y));
    REFUSED(region->Capture([](RankRegion&) { return absl::OkStatus(); }));
    Batch batch = region->NewBatch();
    REFUSED(batch.AllReduce(x));
    REFUSED(batch.End());
    REFUSED(batch.Start());
  }
  Region region = world->region();
  REFUSED(region.AllReduce({x, y}));
  REFUSED(region.Gather({x, y}, x, 0));
  REFUSED(region.AllGather({x, y}, {x, y}));
  REFUSED(region.StartAllReduce({x, y}));
  REFUSED(region.StartGather({x, y}, x, 0));
  REFUSED(region.StartAllGather({x, y}, {x, y}));
  REFUSED(region.Capture([](RankRegion&) { return absl::OkStatus(); }));
  region.Cancel("a child's");
  region.Close();
  REFUSED(region.status());
  REFUSED(graph.Launch());
  refusals.Expect("Done", work.Done());
  REFUSED(work.status());
  REFUSED(work.Synchronize());
  for (Stream* one : {&world->stream(0), stream.get()}) {
    REFUSED(work.Wait(*one));
    REFUSED(one->Launch([] {}));
    REFUSED(one->Copy(x, y));
    REFUSED(one->Scale(x, y, 2));
    REFUSED(one->Wait(one->Record()));
    REFUSED(one->Record().Synchronize());
    REFUSED(one->CheckRoom());
    REFUSED(one->Synchronize());
    REFUSED(one->Synchronize(absl::ZeroDuration()));
  }
  REFUSED(world->device(0).Allocate(DType::kF32, {1}));
  REFUSED(world->device(0).NewStream());
  REFUSED(world->device(0).BindThisThread());
  return refusals.wrong();
}

struct Parent {
  std::shared_ptr<Backend> backend = NewBackend(2);
  std::unique_ptr<World> world = World::Create(backend, {}).value();
  std::vector<Buffer> buffers;
  std::unique_ptr<Stream> stream = world->device(1).NewStream().value();
  Call call{*world, {.kind = OpKind::kAllGather}};
  Work work;
  Graph graph;

  Parent() {
    for (int rank = 0; rank < 2; ++rank) {
      buffers.push_back(world->device(rank).Allocate(DType::kF32, {4}).value());
    }
    work = call.Start(world->region()).value()[0];
    if (Under().graphs) {
      graph =
          world->region().Capture([](RankRegion& region) { return region.AcquireSlot(); }).value();
    }
  }
  void ExpectGoesOn() {
    EXPECT_OK(world->Synchronize());
    call.ExpectDone();
    EXPECT_THAT(Drive(*world, [&](Rank& rank) { return call.Post(rank.region()); }), Each(IsOk()));
    if (Under().graphs) {
      EXPECT_OK(graph.Launch());
    }
    EXPECT_OK(world->Synchronize());
    EXPECT_EQ(world->Health().state, WorldHealth::State::kOk);
  }
};

// A child that lets go of everything that the parent has.
std::string UseUp(Parent& parent, Attachment attached) {
  return CallEverything(std::move(parent.backend), std::move(parent.world), std::move(attached),
                        std::move(parent.buffers), std::move(parent.work), std::move(parent.stream),
                        std::move(parent.graph));
}

TEST(Fork1, AChildIsRefusedAndTheParentGoesOn) {
  Parent parent;
  {
    Attachment attached = parent.world->Attach(0).value();
    EXPECT_EQ(InChild([&] { return UseUp(parent, std::move(attached)); }), "");
    EXPECT_EQ(InChild([&] { return UseUp(parent, std::move(attached)); }), "");  // of another
  }
  parent.ExpectGoesOn();
}

TEST(Fork1, AChildIsRefusedWhileALockIsHeld) {
  Parent parent;
  {
    Attachment attached = parent.world->Attach(0).value();
    Progress held, release;
    OnThreads(2, [&](int which) {
      if (which == 1) {
        sync::MutexLock lock(parent.backend->order().mutex);
        held.Add();
        release.AwaitAtLeast(1);
        return;
      }
      held.AwaitAtLeast(1);
      EXPECT_EQ(InChild([&] { return UseUp(parent, std::move(attached)); }), "");
      release.Add();
    });
  }
  parent.ExpectGoesOn();
}

// The child of a rank has that rank's thread and none else.
TEST(Fork1, ARankForksWhileItsPeersWork) {
  Parent parent;
  Call sum(*parent.world, {.shape = {1000}});
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 20; ++i) {
      MP_RETURN_IF_ERROR(sum.Post(rank.region()));
      if (rank.id() != 0 || i % 5 != 0) continue;
      EXPECT_EQ(InChild([&]() -> std::string {
                  Refusals refusals;
                  REFUSED(sum.Post(rank.region()));
                  REFUSED(rank.stream().Synchronize());
                  REFUSED(rank.world().Close());
                  return refusals.wrong();
                }),
                "");
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*parent.world, post), Each(IsOk()));
  sum.ExpectDone();
  parent.ExpectGoesOn();
}

TEST(Fork1, AChildMayExec) {
  Parent parent;
  EXPECT_EQ(InChild([]() -> std::string {
              execl("/bin/true", "true", nullptr);
              return "exec has come back";
            }),
            "");
  parent.ExpectGoesOn();
}

}  // namespace
}  // namespace mp::test
