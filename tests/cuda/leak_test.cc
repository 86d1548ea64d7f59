// SHUT-3: what there is of CUDA and NCCL stays as it is over many Worlds, Regions and operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <vector>

#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::fake {

void PrintTo(const Live& live, std::ostream* out) {
  *out << live.streams << " streams, " << live.events << " events, " << live.allocations
       << " allocations, " << live.communicators << " communicators, " << live.bytes << " bytes, "
       << live.captures << " captures, " << live.graphs << " graphs, " << live.executables
       << " that can be launched";
}

}  // namespace mp::fake

namespace mp::cuda {
namespace {

using fake::Live;

constexpr int kRanks = 3;

// A Region that is closed goes when its last mark is seen to have passed, so a few may be left.
bool IsNoMore(const Live& now, const Live& before) {
  constexpr int64_t kMarks = 200;
  return now.streams <= before.streams + kMarks / 20 && now.events <= before.events + kMarks &&
         now.allocations == before.allocations && now.bytes == before.bytes &&
         now.communicators == before.communicators && now.pools == before.pools &&
         now.captures == before.captures && now.graphs == before.graphs &&
         now.executables <= before.executables;
}

class Leak : public ::testing::TestWithParam<Transport> {
 protected:
  void TearDown() override {
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  template <typename Body>
  void ExpectFlat(int first, int times, const Body& body) {
    for (int i = 0; i < first; ++i) body();
    const Live before = machine_.live();
    for (int i = 0; i < times; ++i) body();
    EXPECT_TRUE(IsNoMore(machine_.live(), before)) << ::testing::PrintToString(machine_.live())
                                                   << " after " << ::testing::PrintToString(before);
  }

  fake::Machine machine_{{.devices = kRanks}};
  std::shared_ptr<Backend> backend_ = NewBackend({.transport = GetParam()}).value();
};

struct Ranks {
  explicit Ranks(World& world) {
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(world.device(rank).Allocate(DType::kF32, {5}).value());
      views.push_back(buffers.back().view());
    }
  }
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
};

TEST_P(Leak, WorldsLeaveNothing) {
  ExpectFlat(2, 100, [&] {
    const auto world = World::Create(backend_).value();
    const Ranks ranks(*world);
    EXPECT_OK(world->region().AllReduce(ranks.views));
    EXPECT_OK(world->Synchronize());
  });
}

// Of those of the same ranks NCCL's communicators are shared, and stay.
TEST_P(Leak, RegionsLeaveNothing) {
  const auto world = World::Create(backend_).value();
  const Ranks ranks(*world);
  ExpectFlat(3, 200, [&] {
    Region region = world->NewRegion({2, 1}).value();
    EXPECT_OK(region.AllReduce({ranks.views[2], ranks.views[1]}));
    EXPECT_OK(world->Synchronize());
    region.Close();
  });
}

TEST_P(Leak, OperationsAndGraphsLeaveNothing) {
  const auto world = World::Create(backend_).value();
  const Ranks ranks(*world);
  ExpectFlat(100, 2000, [&] {
    EXPECT_OK(world->region().AllReduce(ranks.views));
    const std::vector<Work> works = world->region().StartAllReduce(ranks.views).value();
    for (const Work& work : works) EXPECT_OK(work.Synchronize());
  });
  ExpectFlat(3, 50, [&] {
    const auto graph = world->region().Capture([&](RankRegion& region) {
      return region.AllReduce(ranks.views[static_cast<size_t>(region.peer())]);
    });
    ASSERT_OK(graph.status());
    EXPECT_OK(graph->Launch());
    EXPECT_OK(world->Synchronize());
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Leak, ::testing::Values(Transport::kNccl, Transport::kDirect));

}  // namespace
}  // namespace mp::cuda
