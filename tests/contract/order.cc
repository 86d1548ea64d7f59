// ORD-1, ORD-3, ORD-4, ORD-7: operations run when all ranks have come and agree, in the order of
// the posts, whichever door they came through.  Sums in place over groups that overlap show the
// order: any other gives other numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Ord1, EveryRankDoorGivesTheSameResult) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    for (const CallSpec& spec : OneOfEach()) {
      Call call(*world, spec);
      const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
      EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Ord1, TheOneCallDoorGivesTheSameResult) {
  auto world = NewWorld(3);
  for (const CallSpec& spec : OneOfEach()) {
    Call call(*world, spec);
    EXPECT_OK(call.Post(world->region()));
    EXPECT_OK(world->Synchronize());
    call.ExpectDone();
  }
}

TEST(Ord1, NothingIsLaunchedBeforeTheLastRankHasCome) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(3);
  std::vector<Attachment> ranks;
  for (int id = 0; id < 3; ++id) ranks.push_back(world->Attach(id).value());
  for (const CallSpec& spec : OneOfEach()) {
    Call call(*world, spec);
    for (const int id : {2, 0}) EXPECT_OK(call.Post(ranks[At(id)]->region()));
    const Event event = ranks[0]->stream().Record();
    EXPECT_FALSE(event.Done());
    const absl::Status looked = event.Synchronize(absl::ZeroDuration());
    EXPECT_TRUE(absl::IsDeadlineExceeded(looked)) << looked;
    EXPECT_EQ(KindOf(looked), ErrorKind::kNone);
    call.ExpectUntouched();
    EXPECT_OK(call.Post(ranks[1]->region()));
    EXPECT_OK(event.Synchronize());
    for (Attachment& rank : ranks) EXPECT_OK(rank->stream().Synchronize());
    call.ExpectDone();
  }
}

// Steps of a program, each a sum in place over one of some groups that overlap.
class Chain {
 public:
  static constexpr int kRanks = 4;
  static constexpr int kElements = 5;

  Chain(World& world, int steps, uint64_t seed) {
    for (const auto& ranks : std::vector<std::vector<int>>{
             {0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 2, 3}, {2, 1, 0}, {0, 1, 2, 3}}) {
      groups_.push_back(ranks);
      regions_.push_back(world.NewRegion(ranks).value());
    }
    Random random(seed);
    for (int rank = 0; rank < kRanks; ++rank) {
      values_.push_back({});
      for (int i = 0; i < kElements; ++i) values_.back().push_back(random.Bits());
      tensors_.emplace_back(world.device(rank), DType::kU64, Shape{kElements});
      tensors_.back().Fill(BytesOf(values_.back()));
    }
    for (int i = 0; i < steps; ++i) {
      steps_.push_back(static_cast<size_t>(random.Below(static_cast<int>(groups_.size()))));
    }
  }

  // The next post of a rank; false where it has none left.
  bool PostNext(Rank& rank, size_t& next) {
    for (; next < steps_.size(); ++next) {
      absl::StatusOr<RankRegion> region = regions_[steps_[next]].ForRank(rank);
      if (!region.ok()) continue;  // not a member
      EXPECT_OK(region->AllReduce(tensors_[At(rank.id())].view()));
      ++next;
      return true;
    }
    return false;
  }

  void ExpectDone() {
    for (const size_t step : steps_) {
      for (int i = 0; i < kElements; ++i) {
        uint64_t sum = 0;
        for (const int rank : groups_[step]) sum += Value(rank, i);
        for (const int rank : groups_[step]) Value(rank, i) = sum;
      }
    }
    for (size_t rank = 0; rank < kRanks; ++rank) {
      tensors_[rank].ExpectElements(BytesOf(values_[rank]), absl::StrCat("rank ", rank));
    }
  }

 private:
  static Bytes BytesOf(const std::vector<uint64_t>& values) {
    Bytes bytes(values.size() * sizeof(uint64_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  uint64_t& Value(int rank, int i) {
    return values_[static_cast<size_t>(rank)][static_cast<size_t>(i)];
  }

  std::vector<std::vector<int>> groups_;
  std::vector<Region> regions_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<uint64_t>> values_;
  std::vector<size_t> steps_;
};

TEST(Ord1, RegionsThatOverlapRunInTheOrderOfTheirPosts) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto world = NewWorld(Chain::kRanks);
    Chain chain(*world, 60, seed);
    const auto post = [&](Rank& rank) {
      size_t next = 0;
      while (chain.PostNext(rank, next)) {
      }
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    chain.ExpectDone();
  }
}

TEST(Ord1, RegionsThatOverlapRunInTheOrderOfTheirPostsInEverySchedule) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SteppedWorld stepped(Chain::kRanks, seed);
    Chain chain(stepped.world(), 40, seed);
    Random random(seed);
    std::vector<size_t> next(Chain::kRanks);
    std::vector<int> busy = {0, 1, 2, 3};
    while (!busy.empty()) {
      const int id = random.Pick(busy);
      if (!chain.PostNext(stepped.rank(id), next[At(id)])) std::erase(busy, id);
    }
    EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
    chain.ExpectDone();
  }
}

TEST(Ord1, WorldsOnOneBackendRunBesideEachOther) {
  const std::shared_ptr<Backend> backend = NewBackend(3);
  auto first = World::Create(backend, {}).value();
  auto second = World::Create(backend, {.devices = {2, 0}}).value();
  std::deque<Call> calls;
  for (int i = 0; i < 40; ++i) {
    const CallSpec spec{
        .kind = OpKind::kAllGather, .shape = {3, 0}, .seed = static_cast<uint64_t>(i)};
    calls.emplace_back(*first, spec);
    calls.emplace_back(*second, spec);
  }
  OnThreads(2, [&](int which) {
    World& world = which == 0 ? *first : *second;
    const auto post = [&](Rank& rank) -> absl::Status {
      for (size_t i = static_cast<size_t>(which); i < calls.size(); i += 2) {
        MP_RETURN_IF_ERROR(calls[i].Post(rank.region()));
      }
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(world, post), Each(IsOk()));
  });
  for (const Call& call : calls) call.ExpectDone();
}

TEST(Ord3, RegionsPostedInCrossedOrdersEndInAnError) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2);
  ASSERT_OK_AND_ASSIGN(Region a, stepped.world().NewRegion({0, 1}, {.name = "a"}));
  ASSERT_OK_AND_ASSIGN(Region b, stepped.world().NewRegion({0, 1}, {.name = "b"}));
  Call one(stepped.world(), {.kind = OpKind::kAllGather});
  Call other(stepped.world(), {.kind = OpKind::kAllGather});
  std::vector<absl::Status> told;
  for (const int id : {0, 1}) {
    ASSERT_OK_AND_ASSIGN(RankRegion in_a, a.ForRank(stepped.rank(id)));
    ASSERT_OK_AND_ASSIGN(RankRegion in_b, b.ForRank(stepped.rank(id)));
    absl::Status status = one.Post(id == 0 ? in_a : in_b);
    if (status.ok()) status = other.Post(id == 0 ? in_b : in_a);
    told.push_back(status);
  }
  for (const int id : {0, 1}) {
    absl::Status& status = told[At(id)];
    if (status.ok()) status = stepped.Synchronize(id);
  }
  EXPECT_THAT(told, Each(AnyOf(KindIs(ErrorKind::kMismatch), KindIs(ErrorKind::kAbsentShard))));
}

TEST(Ord4, ADifferentOrderIsAMismatchWhereItBegins) {
  for (const Door door : RankDoors()) {
    for (const int before : {0, 17}) {
      SCOPED_TRACE(absl::StrCat(Name(door), " after ", before));
      auto world = NewWorld(2);
      ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "tensor"}));
      Call reduce(*world, {.inputs = Inputs::kInPlace});
      Call gather(*world, {.kind = OpKind::kGather, .shape = {2, 0}});
      const auto post = [&](Rank& rank) -> absl::Status {
        MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
        for (int i = 0; i < before; ++i) MP_RETURN_IF_ERROR(mine.AcquireSlot());
        MP_RETURN_IF_ERROR((rank.id() == 0 ? reduce : gather).Post(mine));
        return (rank.id() == 0 ? gather : reduce).Post(mine);
      };
      EXPECT_THAT(Drive(*world, door, post),
                  Each(KindIs(ErrorKind::kMismatch,
                              AllOf(HasSubstr("AllReduce"), HasSubstr("Gather"),
                                    HasSubstr("tensor"), HasSubstr(absl::StrCat(before))))));
      reduce.ExpectUntouched();
      gather.ExpectUntouched();
    }
  }
}

TEST(Ord7, InPlaceOrNotIsEachRanksOwnBusiness) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(4);
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kGather, OpKind::kAllGather}) {
      Call call(*world, {.kind = kind, .shape = {3, 4}, .root = 1, .inputs = Inputs::kMixed});
      const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
      EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Ord7, AnEmptyOperationIsCounted) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(2);
    Call empty(*world, {.shape = {0, 5}});
    Call none(*world, {.kind = OpKind::kAllGather, .shape = {3, 0}, .extents = {0, 0}});
    Call differs(*world, {.kind = OpKind::kAllGather});
    const auto post = [&](Rank& rank) -> absl::Status {
      for (int i = 0; i < 23; ++i) {
        MP_RETURN_IF_ERROR((i % 2 == 0 ? empty : none).Post(rank.region()));
      }
      return rank.id() == 0 ? rank.region().AcquireSlot() : differs.Post(rank.region());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(KindIs(ErrorKind::kMismatch, HasSubstr("23"))));
  }
}

TEST(Ord7, AnOperationThatMovesNothingStillOrdersTheRanks) {
  SKIP_UNLESS(doors_never_wait);
  const std::vector<CallSpec> specs = {
      {.kind = OpKind::kAcquireSlot},
      {.shape = {0}},
      {.kind = OpKind::kGather, .shape = {2, 0}, .inputs = Inputs::kInPlace},
      {.kind = OpKind::kAllGather, .shape = {2, 0}, .extents = {0, 0, 0}},
  };
  for (const CallSpec& spec : specs) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      SCOPED_TRACE(absl::StrCat(spec.ToString(), " schedule ", seed));
      SteppedWorld stepped(3, seed);
      Call call(stepped.world(), spec);
      int written = 0;
      std::vector<int> seen;
      for (int id = 0; id < 3; ++id) {
        Stream& stream = stepped.rank(id).stream();
        EXPECT_OK(stream.Launch(Under().kernel([&] { ++written; })));
        EXPECT_OK(call.Post(stepped.region(id)));
        EXPECT_OK(stream.Launch(Under().kernel([&] { seen.push_back(written); })));
      }
      EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
      EXPECT_THAT(seen, ::testing::ElementsAre(3, 3, 3));
    }
  }
}

}  // namespace
}  // namespace mp::test
