// Slots: a shard that lies in its own slot of the result is joined without a copy, and Slot() says
// where that is.  ALI-2: every other overlap is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

void ExpectSame(const TensorView& a, const TensorView& b) {
  EXPECT_EQ(a.data(), b.data());
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(a.rows() <= 1 || a.row_pitch() == b.row_pitch());
}

// What rank 0's door says; Slot is arithmetic and needs no peer.
template <typename Body>
void WithRegion(World& world, const Body& body) {
  const auto post = [&](Rank& rank) {
    if (rank.id() == 0) body(rank.region());
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(world, post), Each(IsOk()));
}

TEST(Slot, IsWhereTheShardIsJoined) {
  auto world = NewWorld(3);
  const std::vector<int64_t> extents = {2, 0, 4};
  Tensor last(world->device(0), DType::kF16, {5, 2, 6}, {.gap = 3});
  Tensor first(world->device(0), DType::kF16, {6, 2, 5}, {.gap = 1});
  Tensor vector(world->device(0), DType::kF16, {6});
  Tensor middle(world->device(0), DType::kF16, {1, 6, 5});
  WithRegion(*world, [&](RankRegion& region) {
    int64_t offset = 0;
    for (int peer = 0; peer < 3; offset += extents[At(peer)], ++peer) {
      const int64_t extent = extents[At(peer)];
      const auto expect = [&](const TensorView& output, int dim) {
        SCOPED_TRACE(absl::StrCat(output.ToString(), " dim ", dim, " peer ", peer));
        const int joined = dim < 0 ? dim + output.shape().rank() : dim;
        ASSERT_OK_AND_ASSIGN(TensorView slot, region.Slot(output, peer, extents, dim));
        ExpectSame(slot, SlotOf(output, joined, offset, extent));
      };
      expect(last.view(), -1);
      expect(last.view(), 2);
      expect(first.view(), 0);
      expect(first.view(), -3);
      expect(vector.view(), 0);
      expect(vector.view(), -1);
      expect(middle.view(), 1);
    }
  });
}

TEST(Slot, IsOneOfEqualPartsWithoutExtents) {
  auto world = NewWorld(3);
  Tensor output(world->device(0), DType::kF32, {2, 6});
  WithRegion(*world, [&](RankRegion& region) {
    for (int peer = 0; peer < 3; ++peer) {
      ASSERT_OK_AND_ASSIGN(TensorView slot, region.Slot(output.view(), peer));
      ExpectSame(slot, SlotOf(output.view(), 1, 2 * peer, 2));
    }
  });
}

TEST(Slot, RefusesWhatIsNone) {
  auto world = NewWorld(3);
  Tensor output(world->device(0), DType::kF32, {2, 6, 4}),
      seven(world->device(0), DType::kF32, {7});
  WithRegion(*world, [&](RankRegion& region) {
    const TensorView& view = output.view();
    const auto kInvalid = ErrorKind::kInvalidArgument;
    EXPECT_THAT(region.Slot(seven.view(), 0), KindIs(kInvalid, HasSubstr("7")));
    EXPECT_THAT(region.Slot(view, 0, {1, 2, 2}), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 0, {1, 3}), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 0, {-1, 3, 2}), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 3, {1, 1, 2}), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, -1, {1, 1, 2}), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 0, {}, 3), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 0, {}, -4), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(TensorView(), 0), KindIs(kInvalid));
    EXPECT_THAT(region.Slot(view, 0, {}, 1), KindIs(ErrorKind::kUnsupported));
  });
}

TEST(Slot, ShardsInTheirSlotsStayAndTheOthersAreCopied) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(4);
    for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
      for (const Inputs inputs : {Inputs::kInPlace, Inputs::kMixed}) {
        for (const CallSpec& spec : std::vector<CallSpec>{
                 {.shape = {3, 0}, .dim = 1, .output_layout = {.offset = 3, .gap = 2}},
                 {.shape = {0, 5}, .dim = 0, .output_layout = {.gap = 1}},
                 {.shape = {1, 0, 5}, .dim = 1},
                 {.shape = {0}, .dim = 0}}) {
          CallSpec own = spec;
          own.kind = kind;
          own.root = 2;
          own.inputs = inputs;
          own.extents = {3, 1, 0, 4};
          Call call(*world, own);
          const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
          EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
          call.ExpectDone();
        }
      }
    }
  }
}

TEST(Slot, OfASharedResultIsForEveryRankItsOwn) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kAllGather,
                     .shape = {3, 0},
                     .shared_output = true,
                     .inputs = Inputs::kInPlace});
  const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectDone();
}

// Where rank `who`'s shard begins, in elements beyond its slot of the root's output.
struct Shift {
  int who;
  int64_t by;
};

// Gathers [rows, 3] from each of 3 ranks to rank 1, with one shard shifted, through a rank door or
// the one-call door; what the ranks were told.
std::vector<absl::Status> GatherShifted(World& world, bool one_call, int64_t rows, Shift shift,
                                        const Tensor& full) {
  Region region = world.NewRegion({0, 1, 2}).value();
  std::vector<TensorView> shards;
  for (int rank = 0; rank < 3; ++rank) {
    TensorView slot = SlotOf(full.view(), 1, 3 * rank, 3);
    if (rank == shift.who) {
      char* moved = static_cast<char*>(slot.data()) + shift.by * 4;
      slot = TensorView::Pitched(moved, DType::kF32, {rows, 3}, slot.row_pitch()).value();
    }
    shards.push_back(slot);
  }
  if (one_call) {
    absl::Status told = region.Gather(shards, full.view(), 1);
    if (told.ok()) told = world.Synchronize();
    return {told};
  }
  return Drive(world, [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return mine.Gather(shards[At(rank.id())], full.view(), 1);
  });
}

TEST(Ali2, AShardMayLieInItsOwnSlotAndNowhereElseInTheOutput) {
  auto world = NewWorld(3);
  for (const bool one_call : {false, true}) {
    for (const int64_t rows : {1, 2}) {
      for (int who = 0; who < 3; ++who) {
        for (const int64_t by : {-1, 0, 1}) {
          SCOPED_TRACE(absl::StrCat("rank ", who, " shifted by ", by, ", ", rows, " rows"));
          Tensor full(world->device(1), DType::kF32, {rows, 9}, {.gap = 4});
          full.Fill(SmallNumbers(DType::kF32, rows * 9, 5));
          const auto told = GatherShifted(*world, one_call, rows, {who, by}, full);
          if (by == 0) {
            EXPECT_THAT(told, Each(IsOk()));
          } else {
            EXPECT_THAT(told, Contains(AnyOf(KindIs(ErrorKind::kMismatch),
                                             KindIs(ErrorKind::kInvalidArgument))));
            EXPECT_THAT(told, Each(testing::Not(IsOk())));
          }
          full.ExpectUntouched("output of the root");
        }
      }
    }
  }
}

TEST(Ali2, ADenseShardOfOneRowInItsSlotStays) {
  auto world = NewWorld(2);
  Tensor full(world->device(0), DType::kF32, {1, 5});
  full.Fill(SmallNumbers(DType::kF32, 5, 1));
  float* first = static_cast<float*>(full.view().data());
  const std::vector<TensorView> shards = {TensorView(first, DType::kF32, {1, 2}),
                                          TensorView(first + 2, DType::kF32, {1, 3})};
  const auto post = [&](Rank& rank) {
    return rank.region().Gather(shards[At(rank.id())], full.view(), 0);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  full.ExpectUntouched("the result, which lay there");
}

TEST(Ali2, AShardInItsSlotWithAnotherPitchIsRefused) {
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
  Tensor full(world->device(0), DType::kF32, {2, 6}), other(world->device(1), DType::kF32, {2, 3});
  full.Fill(SmallNumbers(DType::kF32, 12, 1));
  const TensorView packed(full.view().data(), DType::kF32, {2, 3});
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return mine.Gather(rank.id() == 0 ? packed : other.view(), full.view(), 0);
  };
  EXPECT_THAT(Drive(*world, post), Each(testing::Not(IsOk())));
  full.ExpectUntouched("output of the root");
}

TEST(Ali2, EmptyRangesNeverOverlap) {
  auto world = NewWorld(2);
  Tensor full(world->device(0), DType::kF32, {2, 3}), shard(world->device(1), DType::kF32, {2, 3});
  shard.Fill(SmallNumbers(DType::kF32, 6, 3));
  const TensorView empty(static_cast<float*>(full.view().data()) + 1, DType::kF32, {2, 0});
  const auto post = [&](Rank& rank) {
    return rank.region().Gather(rank.id() == 0 ? empty : shard.view(), full.view(), 0);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  full.ExpectElements(shard.Elements(), "output of the root");
}

TEST(Ali2, RowsThatInterleaveDoNotOverlap) {
  // The shard lies in columns of the same memory that are no part of the output.
  auto world = NewWorld(2);
  Tensor whole(world->device(0), DType::kI32, {3, 7}), other(world->device(1), DType::kI32, {3, 2});
  whole.Fill(AnyBits(DType::kI32, 21, 1));
  other.Fill(AnyBits(DType::kI32, 6, 2));
  const TensorView output = whole.view().Columns(0, 4).value();
  const TensorView shard = whole.view().Columns(5, 2).value();
  const Bytes kept = ReadElements(shard);
  const auto post = [&](Rank& rank) {
    return rank.region().Gather(rank.id() == 0 ? shard : other.view(), output, 0);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  EXPECT_EQ(ReadElements(output.Columns(0, 2).value()), kept);
  EXPECT_EQ(ReadElements(output.Columns(2, 2).value()), other.Elements());
  EXPECT_EQ(ReadElements(shard), kept);
}

}  // namespace
}  // namespace mp::test
