// Region::Batch: several operations agreed on, ticketed and issued as one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

std::deque<Call> OneOfEachCall(World& world) {
  std::deque<Call> calls;
  for (const CallSpec& spec : OneOfEach()) calls.emplace_back(world, spec);
  return calls;
}

absl::Status AddAll(const std::deque<Call>& calls, Batch& batch, int peer) {
  for (const Call& call : calls) MP_RETURN_IF_ERROR(call.AddTo(batch, peer));
  return absl::OkStatus();
}

TEST(Batch, DoesWhatItsOperationsDo) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    const std::deque<Call> calls = OneOfEachCall(*world);
    const auto post = [&](Rank& rank) -> absl::Status {
      Batch batch = rank.region().NewBatch();
      MP_RETURN_IF_ERROR(AddAll(calls, batch, rank.id()));
      return batch.End();
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    for (const Call& call : calls) call.ExpectDone();
  }
}

TEST(Batch, RunsOnTheCommStreamToo) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    const std::deque<Call> calls = OneOfEachCall(*world);
    const auto post = [&](Rank& rank) -> absl::Status {
      Batch batch = rank.region().NewBatch();
      MP_RETURN_IF_ERROR(AddAll(calls, batch, rank.id()));
      MP_ASSIGN_OR_RETURN(Work work, batch.Start());
      return work.Wait(rank.stream());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    for (const Call& call : calls) call.ExpectDone();
  }
}

TEST(Batch, IsEmptyAfterEndAndMayBeUsedAgain) {
  auto world = NewWorld(2);
  Call one(*world, {.kind = OpKind::kAllGather}), two(*world, {.inputs = Inputs::kInPlace});
  const auto post = [&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    for (const Call* call : {&one, &two}) {
      MP_RETURN_IF_ERROR(call->AddTo(batch, rank.id()));
      MP_RETURN_IF_ERROR(batch.End());
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  one.ExpectDone();
  two.ExpectDone();  // in place: done once, not twice
}

TEST(Batch, PostsNothingWithoutEnd) {
  auto world = NewWorld(2);
  Call dropped(*world, {.inputs = Inputs::kInPlace}), call(*world, {.kind = OpKind::kAllGather});
  const auto post = [&](Rank& rank) -> absl::Status {
    {
      Batch batch = rank.region().NewBatch();
      MP_RETURN_IF_ERROR(dropped.AddTo(batch, rank.id()));
    }
    return call.Post(rank.region());
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectDone();
  dropped.ExpectUntouched();
}

TEST(Batch, AWrongCallAddsNothing) {
  auto world = NewWorld(2);
  Call one(*world, {.kind = OpKind::kAllGather}), two(*world, {.inputs = Inputs::kInPlace});
  const auto post = [&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    MP_RETURN_IF_ERROR(one.AddTo(batch, rank.id()));
    if (rank.id() == 1) {
      EXPECT_THAT(batch.AllReduce(TensorView()), KindIs(ErrorKind::kInvalidArgument));
      EXPECT_THAT(batch.Gather(one.input(1), one.output(1), 2),
                  KindIs(ErrorKind::kInvalidArgument));
      EXPECT_THAT(batch.AllGather(one.input(1), two.output(1), {.dim = 1}),
                  KindIs(ErrorKind::kInvalidArgument));
    }
    MP_RETURN_IF_ERROR(two.AddTo(batch, rank.id()));
    return batch.End();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  one.ExpectDone();
  two.ExpectDone();
}

// What rank 1 adds, where rank 0 adds calls[0], calls[1] and calls[2].
struct Disagreement {
  const char* what;
  std::vector<size_t> added;
};

TEST(Batch, WholeListsMustAgree) {
  const std::vector<Disagreement> disagreements = {
      {"one more", {0, 1, 2, 2}},           {"one less", {0, 1}},
      {"another in the middle", {0, 3, 2}}, {"another order", {0, 2, 1}},
      {"another first", {3, 1, 2}},         {"another last", {0, 1, 3}},
  };
  for (const Door door : RankDoors()) {
    auto world = NewWorld(2);
    for (const Disagreement& disagreement : disagreements) {
      SCOPED_TRACE(absl::StrCat(disagreement.what, ", ", Name(door)));
      ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "tensor"}));
      std::deque<Call> calls;
      calls.emplace_back(*world, CallSpec{.inputs = Inputs::kInPlace});
      calls.emplace_back(*world, CallSpec{.kind = OpKind::kAllGather, .shape = {3, 0}});
      calls.emplace_back(*world, CallSpec{.kind = OpKind::kGather, .shape = {2, 0}, .root = 1});
      calls.emplace_back(*world, CallSpec{.dtype = DType::kU8, .shape = {77}});
      const auto post = [&](Rank& rank) -> absl::Status {
        MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
        Batch batch = mine.NewBatch();
        for (const size_t i : rank.id() == 0 ? std::vector<size_t>{0, 1, 2} : disagreement.added) {
          MP_RETURN_IF_ERROR(calls[i].AddTo(batch, rank.id()));
        }
        return batch.End();
      };
      EXPECT_THAT(Drive(*world, door, post),
                  Each(KindIs(ErrorKind::kMismatch, HasSubstr("tensor"))));
      for (const Call& call : calls) call.ExpectUntouched();
    }
  }
}

TEST(Batch, AndAPlainOperationAreNotTheSame) {
  auto world = NewWorld(2);
  Call call(*world, {.inputs = Inputs::kInPlace}), more(*world, {.kind = OpKind::kAllGather});
  const auto post = [&](Rank& rank) -> absl::Status {
    if (rank.id() == 0) return call.Post(rank.region());
    Batch batch = rank.region().NewBatch();
    MP_RETURN_IF_ERROR(call.AddTo(batch, 1));
    MP_RETURN_IF_ERROR(more.AddTo(batch, 1));
    return batch.End();
  };
  EXPECT_THAT(Drive(*world, post), Each(KindIs(ErrorKind::kMismatch)));
  call.ExpectUntouched();
  more.ExpectUntouched();
}

TEST(Batch, TellsWhichOperationDiffers) {
  auto world = NewWorld(2);
  Call same(*world, {.inputs = Inputs::kInPlace});
  Call sum(*world, {.dtype = DType::kF64, .shape = {9}});
  Call max(*world, {.dtype = DType::kF64, .shape = {9}, .op = ReduceOp::kMax});
  const auto post = [&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    MP_RETURN_IF_ERROR(same.AddTo(batch, rank.id()));
    MP_RETURN_IF_ERROR((rank.id() == 0 ? sum : max).AddTo(batch, rank.id()));
    return batch.End();
  };
  EXPECT_THAT(Drive(*world, post),
              Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("sum"), HasSubstr("max")))));
}

TEST(Batch, InARegionOfOneRankCopiesWhatIsApart) {
  auto world = NewWorld(1);
  const std::deque<Call> calls = OneOfEachCall(*world);
  const auto post = [&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    MP_RETURN_IF_ERROR(AddAll(calls, batch, 0));
    return batch.End();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const Call& call : calls) call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
