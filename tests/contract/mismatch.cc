// MIS-1 to MIS-3: ranks that disagree are told so, all of them, with both values; nothing has been
// touched, and a new Region works at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Two calls that differ in one field, and how a message names the two values.
struct Difference {
  const char* field;
  CallSpec most;
  CallSpec odd;
  const char* in_most;
  const char* in_odd;
};

std::vector<Difference> Differences() {
  constexpr auto kGather = OpKind::kGather, kAllGather = OpKind::kAllGather;
  const CallSpec reduce{.shape = {2, 6}, .inputs = Inputs::kInPlace};
  const CallSpec gather{.kind = kGather, .shape = {3, 0}};
  const CallSpec square{.kind = kAllGather, .shape = {2, 2}, .extents = {2, 2, 2}, .dim = 0};
  const auto with = [](CallSpec spec, const auto& change) {
    change(spec);
    return spec;
  };
  return {
      {"kind", reduce, square, "AllReduce", "AllGather"},
      {"kind", gather, with(gather, [](auto& s) { s.kind = kAllGather; }), "Gather", "AllGather"},
      {"kind", reduce, {.kind = OpKind::kAcquireSlot}, "AllReduce", "AcquireSlot"},
      {"dtype", reduce, with(reduce, [](auto& s) { s.dtype = DType::kI32; }), "f32", "i32"},
      {"dtype", with(gather, [](auto& s) { s.dtype = DType::kF16; }),
       with(gather, [](auto& s) { s.dtype = DType::kBF16; }), "f16", "bf16"},
      {"reduce op", reduce, with(reduce, [](auto& s) { s.op = ReduceOp::kMax; }), "sum", "max"},
      {"scale", reduce, with(reduce, [](auto& s) { s.scale = 0.25; }), "1", "0.25"},
      {"shape", reduce,
       with(reduce,
            [](auto& s) {
              s.shape = {2, 5};
            }),
       "[2, 6]", "[2, 5]"},
      {"shape of one count", reduce,
       with(reduce,
            [](auto& s) {
              s.shape = {6, 2};
            }),
       "[2, 6]", "[6, 2]"},
      {"dimensions of one count", reduce, with(reduce, [](auto& s) { s.shape = {12}; }), "[2, 6]",
       "[12]"},
      {"emptiness", reduce,
       with(reduce,
            [](auto& s) {
              s.shape = {0, 6};
            }),
       "[2, 6]", "[0, 6]"},
      {"leading dimension", gather,
       with(gather,
            [](auto& s) {
              s.shape = {4, 0};
            }),
       "3", "4"},
      {"leading dimension, empty",
       with(gather,
            [](auto& s) {
              s.extents = {0, 0, 0};
            }),
       with(gather,
            [](auto& s) {
              s.extents = {0, 0, 0}, s.shape = {4, 0};
            }),
       "3", "4"},
      {"dimensions", gather,
       with(gather,
            [](auto& s) {
              s.shape = {3, 1, 0};
            }),
       "3", "3, 1"},
      {"dim", square, with(square, [](auto& s) { s.dim = 1; }), "0", "1"},
      {"root", gather, with(gather, [](auto& s) { s.root = 2; }), "0", "2"},
      {"shared output", with(reduce, [](auto& s) { s.inputs = Inputs::kApart; }),
       with(reduce, [](auto& s) { s.inputs = Inputs::kApart, s.shared_output = true; }), "shared",
       "shared"},
  };
}

TEST(Mis1, EveryFieldThatDiffersIsTold) {
  for (const Door door : RankDoors()) {
    auto world = NewWorld(3);
    for (const Difference& difference : Differences()) {
      for (int odd = 0; odd < 3; ++odd) {
        SCOPED_TRACE(absl::StrCat(difference.field, " of rank ", odd, ", ", Name(door)));
        ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}, {.name = "tensor"}));
        Call most(*world, difference.most), other(*world, difference.odd);
        const auto post = [&](Rank& rank) -> absl::Status {
          MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
          return (rank.id() == odd ? other : most).Post(mine);
        };
        EXPECT_THAT(Drive(*world, door, post),
                    Each(KindIs(ErrorKind::kMismatch,
                                AllOf(HasSubstr("tensor"), HasSubstr(difference.in_most),
                                      HasSubstr(difference.in_odd)))));
        most.ExpectUntouched();
        other.ExpectUntouched();
      }
    }
  }
}

TEST(Mis1, WhatHasNoMeaningOnARankIsNotCompared) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    Call call(*world, {.kind = OpKind::kGather, .shape = {2, 0}, .root = 1});
    Tensor strange(world->device(2), DType::kI8, {7});
    const auto post = [&](Rank& rank) -> absl::Status {
      const TensorView given = rank.id() == 2 ? strange.view() : call.output(rank.id());
      const GatherOptions options{.dim = rank.id() == 0 ? 1 : -1};  // one dimension, said twice
      if (rank.id() != 1) return rank.region().Gather(call.input(rank.id()), given, 1, options);
      MP_ASSIGN_OR_RETURN(Work work, rank.region().StartGather(call.input(1), given, 1, options));
      return work.Wait(rank.stream());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    call.ExpectDone();
    strange.ExpectUntouched("output of a rank that is not the root");
  }
}

TEST(Mis1, ATotalThatDoesNotFitTheRootsOutputIsToldToAll) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}));
    Call call(*world, {.kind = OpKind::kGather, .shape = {2, 0}});
    Tensor wide(world->device(0), DType::kF32, {2, 7});  // 6 columns come
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      return mine.Gather(call.input(rank.id()), wide.view(), 0);
    };
    EXPECT_THAT(Drive(*world, door, post),
                Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("7"), HasSubstr("6")))));
    wide.ExpectUntouched("output of the root");
  }
}

// What all ranks were told, without the words that are each rank's own.
std::vector<std::string> CommonTexts(const std::vector<absl::Status>& told) {
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    texts.push_back(std::regex_replace(std::string(told[rank].message()),
                                       std::regex(absl::StrCat("this is rank ", rank)),
                                       "this is rank *"));
  }
  return texts;
}

// What rank `rank` is told where ranks 0 and 2 call `most` and rank 1 calls `odd`, after 5 others.
std::vector<absl::Status> ToldOfAnOddOne(World& world, const CallSpec& most, const CallSpec& odd) {
  Region region = world.NewRegion({0, 1, 2}, {.name = "tensor"}).value();
  Call right(world, most), wrong(world, odd);
  return Drive(world, [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    for (int i = 0; i < 5; ++i) MP_RETURN_IF_ERROR(mine.AcquireSlot());
    return (rank.id() == 1 ? wrong : right).Post(mine);
  });
}

TEST(Mis2, TheTextIsATableOfTheRanksAndTheirValues) {
  auto world = NewWorld(3);
  const auto told =
      ToldOfAnOddOne(*world, {.shape = {8, 6}}, {.dtype = DType::kBF16, .shape = {8}});
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(told[rank].message(),
              absl::StrCat("Region \"tensor\", operation 5: the ranks differ in dtype, shape: "
                           "ranks 0, 2: AllReduce f32[8, 6] sum; "
                           "rank 1: AllReduce bf16[8] sum (differs); "
                           "nothing was launched (this is rank ",
                           rank, ")"));
  }
  EXPECT_THAT(CommonTexts(told), Each(CommonTexts(told)[0]));
}

TEST(Mis2, TheTextOfAGatherNamesItsDimensionAndRoot) {
  auto world = NewWorld(3);
  const CallSpec most{.kind = OpKind::kGather, .shape = {3, 0}};
  const auto told =
      ToldOfAnOddOne(*world, most, {.kind = OpKind::kGather, .shape = {3, 0}, .root = 2});
  EXPECT_THAT(told,
              Each(KindIs(ErrorKind::kMismatch,
                          AllOf(HasSubstr("differ in root"), HasSubstr("Gather f32[3, *]"),
                                HasSubstr("root=0"), HasSubstr("root=2"), HasSubstr("dim=1")))));
}

TEST(Mis3, ANewRegionWorksAtOnceAndTheOldOneRepeatsItsCause) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    ASSERT_OK_AND_ASSIGN(Region old, world->NewRegion({0, 1, 2}, {.name = "old"}));
    ASSERT_OK_AND_ASSIGN(Region next, world->NewRegion({0, 1, 2}, {.name = "next"}));
    Call stale(*world, {.kind = OpKind::kAllGather}), odd(*world, {.shape = {5}});
    EXPECT_THAT(Drive(*world, door,
                      [&](Rank& rank) -> absl::Status {
                        MP_ASSIGN_OR_RETURN(RankRegion mine, old.ForRank(rank));
                        MP_RETURN_IF_ERROR((rank.id() == 2 ? odd : stale).Post(mine));
                        return stale.Post(mine);  // queued behind it, or refused
                      }),
                Each(KindIs(ErrorKind::kMismatch)));
    Call fresh(*world, {.kind = OpKind::kAllGather, .seed = 2});
    EXPECT_THAT(Drive(*world, door,
                      [&](Rank& rank) -> absl::Status {
                        MP_ASSIGN_OR_RETURN(RankRegion mine, next.ForRank(rank));
                        MP_ASSIGN_OR_RETURN(RankRegion failed, old.ForRank(rank));
                        EXPECT_THAT(stale.Post(failed),
                                    KindIs(ErrorKind::kMismatch, HasSubstr("old")));
                        return fresh.Post(mine);
                      }),
                Each(IsOk()));
    fresh.ExpectDone();
    stale.ExpectUntouched();
    odd.ExpectUntouched();
    EXPECT_THAT(old.status(), KindIs(ErrorKind::kMismatch, HasSubstr("old")));
    EXPECT_OK(next.status());
    EXPECT_OK(world->region().status());
  }
}

TEST(Mis3, ANewRegionMadeByTheRanksThemselvesWorksAtOnce) {
  auto world = NewWorld(3);
  Call fresh(*world, {.kind = OpKind::kAllGather}), odd(*world, {.shape = {5}});
  const auto post = [&](Rank& rank) -> absl::Status {
    absl::Status told = (rank.id() == 0 ? odd : fresh).Post(rank.region());
    if (told.ok()) told = rank.stream().Synchronize();
    EXPECT_THAT(told, KindIs(ErrorKind::kMismatch));
    MP_ASSIGN_OR_RETURN(RankRegion next, rank.NewRegion({0, 1, 2}, {.name = "next"}));
    return fresh.Post(next);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  fresh.ExpectDone();
  odd.ExpectUntouched();
}

}  // namespace
}  // namespace mp::test
