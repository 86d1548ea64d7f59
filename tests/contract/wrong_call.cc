// MIS-4: a call that is wrong in itself is refused before anything is queued.  It has no effect:
// the right call may follow, and the peers never notice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The tensors that wrong calls are made of: one rank's own, never touched.
struct Scraps {
  explicit Scraps(World& world, int rank)
      : shard(world.device(rank), DType::kF32, {2, 3}),
        full(world.device(rank), DType::kF32, {2, 9}),
        pitched(world.device(rank), DType::kF32, {2, 3}, {.gap = 2}),
        whole(world.device(rank), DType::kI32, {2, 9}),
        tall(world.device(rank), DType::kF32, {3, 9}),
        flat(world.device(rank), DType::kF32, {9}),
        number(world.device(rank), DType::kF32, Shape()),
        flags(world.device(rank), DType::kBool, {2, 3}) {}

  void ExpectUntouched() const {
    for (const Tensor* tensor : {&shard, &full, &pitched, &whole, &tall, &flat, &number, &flags}) {
      tensor->ExpectUntouched("a tensor of a wrong call");
    }
  }

  Tensor shard, full, pitched, whole, tall, flat, number, flags;
};

struct WrongCall {
  const char* what;
  ErrorKind kind;
  const char* says;
  std::function<absl::Status(RankRegion&, Scraps&)> call;
};

TensorView View(const Scraps& s, const Shape& shape) {
  return TensorView(s.full.view().data(), DType::kF32, shape);
}

std::vector<WrongCall> WrongReductions() {
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  return {
      {"no tensor", kInvalid, "", [](RankRegion& r, Scraps&) { return r.AllReduce(TensorView()); }},
      {"no memory", kInvalid, "[2, 3]",
       [](RankRegion& r, Scraps&) {
         return r.AllReduce(TensorView(nullptr, DType::kF32, {2, 3}));
       }},
      {"a negative size", kInvalid, "-2",
       [](RankRegion& r, Scraps& s) {
         return r.AllReduce(View(s, {-2, 3}));
       }},
      {"rows with gaps", kInvalid, "pitch",
       [](RankRegion& r, Scraps& s) { return r.AllReduce(s.pitched.view()); }},
      {"an output of another shape", kInvalid, "[3]",
       [](RankRegion& r, Scraps& s) { return r.AllReduce(s.shard.view(), View(s, {3})); }},
      {"an output of the same count", kInvalid, "[6]",
       [](RankRegion& r, Scraps& s) { return r.AllReduce(s.shard.view(), View(s, {6})); }},
      {"an output of another type", kInvalid, "i32",
       [](RankRegion& r, Scraps& s) {
         return r.AllReduce(s.shard.view(), TensorView(s.whole.view().data(), DType::kI32, {2, 3}));
       }},
      {"an output without memory", kInvalid, "",
       [](RankRegion& r, Scraps& s) {
         return r.AllReduce(s.shard.view(), TensorView(nullptr, DType::kF32, {2, 3}));
       }},
      {"a sum of bools", ErrorKind::kUnsupported, "bool",
       [](RankRegion& r, Scraps& s) { return r.AllReduce(s.flags.view()); }},
      {"an average of integers", ErrorKind::kUnsupported, "i32",
       [](RankRegion& r, Scraps& s) {
         return r.AllReduce(s.whole.view(), {.op = ReduceOp::kAvg});
       }},
  };
}

std::vector<WrongCall> WrongGathers() {
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  return {
      {"root -1", kInvalid, "-1",
       [](RankRegion& r, Scraps& s) { return r.Gather(s.shard.view(), s.full.view(), -1); }},
      {"root 3 of 3", kInvalid, "3",
       [](RankRegion& r, Scraps& s) { return r.Gather(s.shard.view(), s.full.view(), 3); }},
      {"dim 2 of 2", kInvalid, "2",
       [](RankRegion& r, Scraps& s) {
         return r.Gather(s.shard.view(), s.full.view(), 0, {.dim = 2});
       }},
      {"dim -3 of 2", kInvalid, "-3",
       [](RankRegion& r, Scraps& s) {
         return r.AllGather(s.shard.view(), s.full.view(), {.dim = -3});
       }},
      {"0-d", kInvalid, "dimension",
       [](RankRegion& r, Scraps& s) { return r.AllGather(s.number.view(), s.flat.view()); }},
      {"no shard", kInvalid, "",
       [](RankRegion& r, Scraps& s) { return r.Gather(TensorView(), s.full.view(), 0); }},
      {"no output where one is due", kInvalid, "output",
       [](RankRegion& r, Scraps& s) { return r.Gather(s.shard.view(), TensorView(), r.peer()); }},
      {"no output for all", kInvalid, "output",
       [](RankRegion& r, Scraps& s) { return r.AllGather(s.shard.view(), TensorView()); }},
      {"an output of another type", kInvalid, "i32",
       [](RankRegion& r, Scraps& s) { return r.AllGather(s.shard.view(), s.whole.view()); }},
      {"the root's output of another type", kInvalid, "i32",
       [](RankRegion& r, Scraps& s) { return r.Gather(s.shard.view(), s.whole.view(), r.peer()); }},
      {"more rows than the shard", kInvalid, "[3, 9]",
       [](RankRegion& r, Scraps& s) { return r.AllGather(s.shard.view(), s.tall.view()); }},
      {"fewer dimensions than the shard", kInvalid, "[9]",
       [](RankRegion& r, Scraps& s) { return r.AllGather(s.shard.view(), s.flat.view()); }},
  };
}

std::vector<WrongCall> WrongCalls() {
  std::vector<WrongCall> all = WrongReductions();
  for (WrongCall& wrong : WrongGathers()) all.push_back(std::move(wrong));
  return all;
}

TEST(Mis4, AWrongCallHasNoEffectAndTheRightOneMayFollow) {
  for (const Door door : RankDoors()) {
    for (const int culprit : {0, 2}) {  // with one thread: the first to come, and the last
      auto world = NewWorld(3);
      Scraps scraps(*world, culprit);
      for (const WrongCall& wrong : WrongCalls()) {
        SCOPED_TRACE(absl::StrCat(wrong.what, ", rank ", culprit, ", ", Name(door)));
        Call call(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
        const auto post = [&](Rank& rank) {
          if (rank.id() == culprit) {
            EXPECT_THAT(wrong.call(rank.region(), scraps),
                        KindIs(wrong.kind, HasSubstr(wrong.says)));
          }
          return call.Post(rank.region());
        };
        EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
        call.ExpectDone();
      }
      scraps.ExpectUntouched();
    }
  }
}

TEST(Mis4, AWrongCallThatEndsItsRankIsTheCauseForThePeers) {
  for (const WrongCall& wrong : WrongCalls()) {
    SCOPED_TRACE(wrong.what);
    auto world = NewWorld(3, {.absence_timeout = absl::InfiniteDuration()});
    Scraps scraps(*world, 1);
    Call call(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
    std::string cause;
    std::vector<absl::Status> told(3);
    const absl::Status status = world->Run([&](Rank& rank) {
      absl::Status& mine = told[At(rank.id())];
      mine = rank.id() == 1 ? wrong.call(rank.region(), scraps) : call.Post(rank.region());
      if (mine.ok()) mine = rank.stream().Synchronize();
      return mine;
    });
    EXPECT_THAT(status, KindIs(wrong.kind, HasSubstr(wrong.says)));
    for (const size_t peer : {0, 2}) {
      EXPECT_THAT(told[peer], KindIs(ErrorKind::kAbsentShard, HasSubstr(told[1].message())));
    }
    call.ExpectUntouched();
  }
}

TEST(Mis4, ARegionOfOneRankChecksTheSameThings) {
  auto world = NewWorld(1);
  Scraps scraps(*world, 0);
  for (const WrongCall& wrong : WrongCalls()) {
    SCOPED_TRACE(wrong.what);
    const auto post = [&](Rank& rank) { return wrong.call(rank.region(), scraps); };
    EXPECT_THAT(Drive(*world, post), Each(KindIs(wrong.kind, HasSubstr(wrong.says))));
  }
  scraps.ExpectUntouched();
}

TEST(Mis4, TheOverlappedFormsAndTheOneCallDoorRefuseTheSame) {
  auto world = NewWorld(2);
  Call call(*world, {.kind = OpKind::kGather, .shape = {2, 0}});
  const std::vector<TensorView> shards = {call.input(0), call.input(1)};
  EXPECT_THAT(world->region().Gather(shards, call.output(0), 2),
              KindIs(ErrorKind::kInvalidArgument));
  EXPECT_THAT(world->region().Gather(shards, TensorView(), 0), KindIs(ErrorKind::kInvalidArgument));
  EXPECT_THAT(world->region().StartGather(shards, call.output(0), 0, {.dim = 2}),
              KindIs(ErrorKind::kInvalidArgument));
  const auto post = [&](Rank& rank) {
    EXPECT_THAT(rank.region().StartGather(shards[0], call.output(0), -1),
                KindIs(ErrorKind::kInvalidArgument));
    EXPECT_THAT(rank.region().StartAllReduce(TensorView()), KindIs(ErrorKind::kInvalidArgument));
    return call.Post(rank.region());
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
