// One program on the host and on CUDA over the fakes: sums and uneven gathers of two and three
// ranks through both doors of a Region.  Every element is compared with its closed form, what must
// not be written is poisoned, and the fake machine must have nothing alive and nothing to complain
// about at the end.
#include "tests/cuda/spike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "mp/base/status.h"
#include "mp/region.h"
#include "mp/trace.h"
#include "mp/world.h"

namespace mp {
namespace {

class RegionSpike : public SpikeTest {
 protected:
  std::unique_ptr<World> NewWorld(bool rank_threads = true) {
    WorldOptions options;
    options.rank_threads = rank_threads;
    auto world = World::Create(backend_, options);
    EXPECT_EQ(world.status(), absl::OkStatus());
    return *std::move(world);
  }
};

TEST_P(RegionSpike, ATraceIsRefusedWhereStreamsDoNotRecord) {
  const auto world = World::Create(backend_, {.trace = std::make_shared<Trace>()});
  EXPECT_EQ(KindOf(world.status()), GetParam().cuda ? ErrorKind::kUnsupported : ErrorKind::kNone)
      << world.status();
}

TEST_P(RegionSpike, RankDoor) {
  const auto world = NewWorld();
  const auto status = world->Run([&](Rank& rank) -> absl::Status {
    const int root = 0;
    Array mine = Shard(rank.id(), 3, 41);
    Array shard = Shard(rank.id(), kRows, width(rank.id()));
    Array poison(kRows, joined() + kGap);
    MP_ASSIGN_OR_RETURN(const Buffer x, ToDevice(rank.device(), rank.stream(), mine));
    MP_ASSIGN_OR_RETURN(const Buffer part, ToDevice(rank.device(), rank.stream(), shard));
    MP_ASSIGN_OR_RETURN(const Buffer full, ToDevice(rank.device(), rank.stream(), poison));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(x.view()));
    MP_RETURN_IF_ERROR(rank.region().Gather(part.view(), Target(full), root));
    ExpectSum(ToHost(rank.stream(), x), ranks());
    Array result = ToHost(rank.stream(), full);
    if (rank.id() == root) {
      ExpectJoined(result, ranks());
    } else {
      EXPECT_EQ(result.data, poison.data);
    }
    return rank.stream().Synchronize();
  });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(world->Close(), absl::OkStatus());
}

TEST_P(RegionSpike, OneCallDoor) {
  const auto world = NewWorld(/*rank_threads=*/false);
  std::vector<Array> arrays, shards;
  std::vector<Buffer> xs, parts;
  std::vector<TensorView> x_views, part_views;
  for (int r = 0; r < ranks(); ++r) {
    arrays.push_back(Shard(r, 3, 41));
    shards.push_back(Shard(r, kRows, width(r)));
  }
  const int root = 1;
  Array poison(kRows, joined() + kGap);
  const Buffer full = *ToDevice(world->device(root), world->stream(root), poison);
  for (int r = 0; r < ranks(); ++r) {
    const auto at = static_cast<size_t>(r);
    xs.push_back(*ToDevice(world->device(r), world->stream(r), arrays[at]));
    parts.push_back(*ToDevice(world->device(r), world->stream(r), shards[at]));
    x_views.push_back(xs[at].view());
    part_views.push_back(parts[at].view());
  }
  EXPECT_EQ(world->region().AllReduce(x_views), absl::OkStatus());
  EXPECT_EQ(world->region().Gather(part_views, Target(full), root), absl::OkStatus());
  EXPECT_EQ(world->Synchronize(), absl::OkStatus());
  for (int r = 0; r < ranks(); ++r) {
    ExpectSum(ToHost(world->stream(r), xs[static_cast<size_t>(r)]), ranks());
  }
  ExpectJoined(ToHost(world->stream(root), full), ranks());
  EXPECT_EQ(world->Close(), absl::OkStatus());
}

// Producers run ahead into the one input and the one output that each round uses anew: only the
// edges "input free" and "output free" of the gather keep the rounds apart.
TEST_P(RegionSpike, RoundsWithoutAHostWaitDoNotMix) {
  constexpr int kRounds = 12;
  const auto world = NewWorld();
  const auto status = world->Run([&](Rank& rank) -> absl::Status {
    const int root = 0;
    std::vector<Array> shards;
    for (int k = 0; k < kRounds; ++k) {
      shards.push_back(Shard(rank.id(), kRows, width(rank.id()), k));
    }
    Array poison(kRows, joined() + kGap);
    MP_ASSIGN_OR_RETURN(const Buffer part, ToDevice(rank.device(), rank.stream(), shards[0]));
    MP_ASSIGN_OR_RETURN(const Buffer full, ToDevice(rank.device(), rank.stream(), poison));
    std::vector<Buffer> seen;
    for (int k = 0; k < kRounds; ++k) {
      MP_ASSIGN_OR_RETURN(Buffer copy, ToDevice(rank.device(), rank.stream(), poison));
      seen.push_back(std::move(copy));
    }
    for (size_t k = 0; k < kRounds; ++k) {
      MP_RETURN_IF_ERROR(rank.stream().Copy(shards[k].view(), part.view()));
      MP_RETURN_IF_ERROR(rank.region().Gather(part.view(), Target(full), root));
      if (rank.id() == root) MP_RETURN_IF_ERROR(rank.stream().Copy(full.view(), seen[k].view()));
    }
    for (int k = 0; k < kRounds && rank.id() == root; ++k) {
      ExpectJoined(ToHost(rank.stream(), seen[static_cast<size_t>(k)]), ranks(), k);
    }
    return rank.stream().Synchronize();
  });
  EXPECT_EQ(status, absl::OkStatus());
}

// Operations on the compute stream and on the Region's comm stream of the same devices, in turn:
// two collective kernels of a device that could each be the first would hang.  A Work is done when
// its own operation is.
TEST_P(RegionSpike, OverlappedAndPlainOperationsInTurn) {
  const auto world = NewWorld();
  const auto status = world->Run([&](Rank& rank) -> absl::Status {
    Array mine = Shard(rank.id(), 3, 41);
    MP_ASSIGN_OR_RETURN(const Buffer x, ToDevice(rank.device(), rank.stream(), mine));
    MP_ASSIGN_OR_RETURN(const Buffer y, ToDevice(rank.device(), rank.stream(), mine));
    MP_ASSIGN_OR_RETURN(const Buffer z, ToDevice(rank.device(), rank.stream(), mine));
    MP_ASSIGN_OR_RETURN(const Work first, rank.region().StartAllReduce(x.view()));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));
    MP_ASSIGN_OR_RETURN(const Work second, rank.region().StartAllReduce(z.view()));
    MP_RETURN_IF_ERROR(first.Wait(rank.stream()));
    ExpectSum(ToHost(rank.stream(), x), ranks());
    ExpectSum(ToHost(rank.stream(), y), ranks());
    MP_RETURN_IF_ERROR(second.Synchronize());
    MP_RETURN_IF_ERROR(second.Wait(rank.stream()));
    ExpectSum(ToHost(rank.stream(), z), ranks());
    return rank.stream().Synchronize();
  });
  EXPECT_EQ(status, absl::OkStatus());
}

// Ranks that disagree: told to each, nothing is launched, memory is as it was, and a new Region
// works on the same streams.
TEST_P(RegionSpike, ADisagreementLaunchesNothing) {
  const auto world = NewWorld();
  std::vector<int> all;
  for (int r = 0; r < ranks(); ++r) all.push_back(r);
  const auto status = world->Run([&](Rank& rank) -> absl::Status {
    Array mine = Shard(rank.id(), 3, 41);
    MP_ASSIGN_OR_RETURN(const Buffer x, ToDevice(rank.device(), rank.stream(), mine));
    AllReduceOptions options;
    options.op = rank.id() == 0 ? ReduceOp::kMax : ReduceOp::kSum;
    absl::Status wrong = rank.region().AllReduce(x.view(), options);
    if (wrong.ok()) wrong = rank.stream().Synchronize();
    EXPECT_EQ(KindOf(wrong), ErrorKind::kMismatch) << wrong;
    (void)rank.stream().Synchronize().ok();
    EXPECT_EQ(ToHost(rank.stream(), x).data, mine.data);
    MP_ASSIGN_OR_RETURN(RankRegion again, rank.NewRegion(all));
    MP_RETURN_IF_ERROR(again.AllReduce(x.view()));
    ExpectSum(ToHost(rank.stream(), x), ranks());
    return rank.stream().Synchronize();
  });
  EXPECT_EQ(status, absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Both, RegionSpike, ::testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace mp
