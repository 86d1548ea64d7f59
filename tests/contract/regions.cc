// Regions: of one rank (SIZ-9), of some ranks, in another order, made by the application or by the
// ranks themselves; their names in messages; what they fail with (ERR-3).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Siz9, OneRankHasTheShapesAndResultsOfMany) {
  auto world = NewWorld(1);
  for (const Inputs inputs : {Inputs::kInPlace, Inputs::kApart}) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kGather, OpKind::kAllGather}) {
      for (const Layout& layout : {Layout{}, Layout{.offset = 4, .gap = 3}}) {
        if (kind == OpKind::kAllReduce && layout.gap != 0) continue;
        for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{1, 7}, Shape{2, 3, 4}}) {
          Call call(*world, {.kind = kind,
                             .shape = shape,
                             .extents = {shape.columns()},
                             .inputs = inputs,
                             .input_layout = layout,
                             .output_layout = layout});
          const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
          EXPECT_THAT(Drive(*world, post), Each(IsOk()));
          call.ExpectDone();
        }
      }
    }
  }
}

TEST(Siz9, OneRankCopiesOnTheStream) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather}) {
      SteppedWorld stepped(1, seed);
      Call call(stepped.world(), {.kind = kind, .shape = {6}, .extents = {6}});
      WriteElements(call.input(0), Bytes(24, 0xEE));
      EXPECT_OK(stepped.rank(0).stream().Launch(
          Under().kernel([&] { WriteElements(call.input(0), call.contents(0)); })));
      EXPECT_OK(call.Post(stepped.region(0)));
      EXPECT_OK(stepped.Synchronize(0));
      call.ExpectDone();
    }
  }
}

TEST(Siz9, OneRankScalesAndAverages) {
  auto world = NewWorld(1);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
    for (const Inputs inputs : {Inputs::kInPlace, Inputs::kApart}) {
      for (const double scale : {1.0, 0.25}) {
        for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
          if (!Under().reduces({dtype, op, scale, 1, false})) continue;
          Call call(*world, {.dtype = dtype, .op = op, .scale = scale, .inputs = inputs});
          const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
          EXPECT_THAT(Drive(*world, post), Each(IsOk()));
          call.ExpectDone();
        }
      }
    }
  }
}

TEST(Siz9, OneRankHasEveryForm) {
  auto world = NewWorld(1);
  for (const CallSpec& spec : OneOfEach()) {
    Call plain(*world, spec), overlapped(*world, spec), by_one_call(*world, spec);
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_RETURN_IF_ERROR(plain.Post(rank.region()));
      MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
      MP_ASSIGN_OR_RETURN(Work work, overlapped.Start(rank.region()));
      MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
      return work.Synchronize();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    EXPECT_OK(by_one_call.Post(world->region()));
    EXPECT_OK(world->Synchronize());
    plain.ExpectDone();
    overlapped.ExpectDone();
    by_one_call.ExpectDone();
  }
}

TEST(Siz9, OneRankIsClosedLikeMany) {
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region alone, world->NewRegion({1}, {.name = "alone"}));
  Call call(*world, {1}, {.inputs = Inputs::kInPlace});
  EXPECT_OK(call.Post(alone));
  alone.Close();
  EXPECT_THAT(call.Post(alone), KindIs(ErrorKind::kClosed, HasSubstr("alone")));
  EXPECT_OK(world->Synchronize());
  call.ExpectUntouched();  // the sum over one rank, in place
}

TEST(Region, HasItsRanksInTheOrderGiven) {
  auto world = NewWorld(4);
  EXPECT_EQ(world->region().world_size(), 4);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({2, 0, 3}, {.name = "tensor"}));
  EXPECT_EQ(region.world_size(), 3);
  EXPECT_EQ(region.name(), "tensor");
  EXPECT_OK(region.status());
  const auto post = [&](Rank& rank) {
    EXPECT_EQ(rank.world_size(), 4);
    EXPECT_EQ(&rank.world(), world.get());
    EXPECT_EQ(&rank.device(), &world->device(rank.id()));
    EXPECT_EQ(&rank.stream(), &world->stream(rank.id()));
    EXPECT_EQ(rank.region().peer(), rank.id());
    EXPECT_EQ(rank.region().world_size(), 4);
    absl::StatusOr<RankRegion> mine = region.ForRank(rank);
    if (rank.id() == 1) {
      EXPECT_THAT(mine, KindIs(ErrorKind::kInvalidArgument, HasSubstr("1")));
    } else {
      EXPECT_OK(mine);
      if (mine.ok()) {
        EXPECT_EQ(mine->peer(), std::vector<int>({1, -1, 0, 2})[At(rank.id())]);
      }
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
}

TEST(Region, ListsOfRanksThatCannotBeAreInvalid) {
  auto world = NewWorld(3);
  for (const std::vector<int>& ranks :
       std::vector<std::vector<int>>{{}, {3}, {-1}, {0, 0}, {0, 1, 2, 0}}) {
    EXPECT_THAT(world->NewRegion(ranks), KindIs(ErrorKind::kInvalidArgument));
    const auto post = [&](Rank& rank) {
      EXPECT_THAT(rank.NewRegion(ranks), KindIs(ErrorKind::kInvalidArgument));
      EXPECT_THAT(rank.NewRegion({(rank.id() + 1) % 3}), KindIs(ErrorKind::kInvalidArgument));
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  }
  EXPECT_THAT(world->NewRegion({0, 1}, {.absence_timeout = -absl::Seconds(1)}),
              KindIs(ErrorKind::kInvalidArgument));
}

// Rows and columns of 2 x 3 ranks, made by the ranks as they go.
TEST(Region, IsMadeByItsRanksInsideRun) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(6);
    std::deque<Call> rows, columns;
    std::vector<std::vector<int>> row_ranks, column_ranks;
    for (int row = 0; row < 2; ++row) row_ranks.push_back({3 * row + 2, 3 * row, 3 * row + 1});
    for (int column = 0; column < 3; ++column) column_ranks.push_back({column, column + 3});
    for (const auto& ranks : row_ranks) {
      rows.emplace_back(*world, ranks, CallSpec{.kind = OpKind::kAllGather, .shape = {2, 0}});
    }
    for (const auto& ranks : column_ranks) {
      columns.emplace_back(*world, ranks, CallSpec{.inputs = Inputs::kInPlace});
    }
    const auto post = [&](Rank& rank) -> absl::Status {
      const size_t row = At(rank.id()) / 3, column = At(rank.id()) % 3;
      MP_ASSIGN_OR_RETURN(RankRegion mine, rank.NewRegion(row_ranks[row]));
      MP_ASSIGN_OR_RETURN(RankRegion other, rank.NewRegion(column_ranks[column]));
      EXPECT_EQ(row_ranks[row][At(mine.peer())], rank.id());
      MP_RETURN_IF_ERROR(rows[row].Post(mine));
      MP_RETURN_IF_ERROR(columns[column].Post(other));
      // The same ranks again: another Region.
      MP_ASSIGN_OR_RETURN(RankRegion again, rank.NewRegion(row_ranks[row]));
      return again.AcquireSlot();
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    for (const Call& call : rows) call.ExpectDone();
    for (const Call& call : columns) call.ExpectDone();
  }
}

TEST(Region, OfTheWorldAndOthersMayBeUsedInTurn) {
  for (const Door door : RankDoors()) {
    auto world = NewWorld(3);
    ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({2, 1}));
    Call first(*world, {.kind = OpKind::kAllGather});
    Call second(*world, {2, 1}, {.kind = OpKind::kGather, .shape = {2, 0}, .root = 1});
    Call third(*world, {.inputs = Inputs::kInPlace});
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_RETURN_IF_ERROR(first.Post(rank.region()));
      if (rank.id() != 0) {
        MP_ASSIGN_OR_RETURN(RankRegion mine, pair.ForRank(rank));
        MP_RETURN_IF_ERROR(second.Post(mine));
      }
      return third.Post(rank.region());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    first.ExpectDone();
    second.ExpectDone();
    third.ExpectDone();
  }
}

TEST(Region, IsNamedInEveryError) {
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "attention"}));
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    EXPECT_THAT(
        mine.AllReduce(TensorView()),
        KindIs(ErrorKind::kInvalidArgument, AllOf(HasSubstr("attention"), HasSubstr("AllReduce"))));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  region.Close();
  EXPECT_THAT(region.status(), KindIs(ErrorKind::kClosed, HasSubstr("attention")));
}

TEST(Err3, AFailedRegionRepeatsItsFirstCauseInEveryForm) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(2);
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "tensor"}));
    Call one(*world, {.shape = {3}, .inputs = Inputs::kInPlace});
    Call other(*world, {.shape = {41}});
    const auto fail = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      return (rank.id() == 0 ? one : other).Post(mine);
    };
    EXPECT_THAT(Drive(*world, door, fail), Each(KindIs(ErrorKind::kMismatch)));
    const auto repeats = KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("[41]"), HasSubstr("[3]")));
    Call next(*world, {.kind = OpKind::kGather, .seed = 3});
    EXPECT_THAT(region.status(), repeats);
    EXPECT_THAT(one.Post(region), repeats);
    EXPECT_THAT(one.Start(region), repeats);
    const auto again = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      EXPECT_THAT(next.Post(mine), repeats);
      EXPECT_THAT(next.Start(mine), repeats);
      EXPECT_THAT(mine.AcquireSlot(), repeats);
      Batch batch = mine.NewBatch();
      absl::Status told = next.AddTo(batch, rank.id());
      if (told.ok()) told = batch.End();
      EXPECT_THAT(told, repeats);
      return rank.region().AcquireSlot();  // the World's own works on
    };
    EXPECT_THAT(Drive(*world, door, again), Each(IsOk()));
    region.Close();  // the first cause stays
    EXPECT_THAT(region.status(), repeats);
    one.ExpectUntouched();
    other.ExpectUntouched();
    next.ExpectUntouched();
  }
}

}  // namespace
}  // namespace mp::test
