// STR-1, STR-2: an operation stands in its stream: after what was queued before it, before what is
// queued after it, without a wait of the host; and a stream is what mp/stream.h says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every rank: a kernel makes the input, the operation, a kernel looks at the result.
void ExpectOrdered(const CallSpec& spec, uint64_t seed, bool on_another_stream) {
  SCOPED_TRACE(absl::StrCat(spec.ToString(), " schedule ", seed));
  SteppedWorld stepped(3, seed);
  Call call(stepped.world(), spec);
  Random random(seed);
  int looked = 0;
  for (const int id : random.Permutation(3)) {
    Rank& rank = stepped.rank(id);
    WriteElements(call.input(id), Bytes(call.contents(id).size(), 0xEE));
    Stream* producer = &rank.stream();
    if (on_another_stream) producer = rank.NewStream().value();
    EXPECT_OK(producer->Launch(
        Under().kernel([&call, id] { WriteElements(call.input(id), call.contents(id)); })));
    EXPECT_OK(rank.stream().Wait(producer->Record()));
    EXPECT_OK(call.Post(rank.region()));
    Stream* consumer = &rank.stream();
    if (on_another_stream) consumer = rank.NewStream().value();
    EXPECT_OK(consumer->Wait(rank.stream().Record()));
    EXPECT_OK(consumer->Launch(Under().kernel([&call, &looked, id] {
      ++looked;
      if (call.output(id).is_null()) return;
      EXPECT_EQ(
          FirstDifference(call.spec().dtype, ReadElements(call.output(id)), call.expected(), true),
          "");
    })));
    EXPECT_EQ(looked, 0);  // nothing has waited yet
    EXPECT_OK(rank.stream().Wait(consumer->Record()));
  }
  EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
  EXPECT_EQ(looked, 3);
  for (int id = 0; id < 3; ++id) {
    if (!call.output(id).is_null()) {
      EXPECT_EQ(ReadElements(call.output(id)), call.expected());
    }
  }
}

TEST(Str1, AnOperationStandsInItsStreamInEverySchedule) {
  SKIP_UNLESS(doors_never_wait);
  const std::vector<CallSpec> specs = {
      {.shape = {9}, .inputs = Inputs::kInPlace},
      {.dtype = DType::kBF16, .shape = {9}},
      {.kind = OpKind::kGather, .shape = {3, 0}, .root = 1},
      {.kind = OpKind::kAllGather, .shape = {3, 0}},
      {.kind = OpKind::kAllGather, .shape = {3, 0}, .shared_output = true},
  };
  for (const CallSpec& spec : specs) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      ExpectOrdered(spec, seed, false);
      ExpectOrdered(spec, seed, true);
    }
  }
}

TEST(Str1, AnOperationStandsInItsStreamOnManyThreads) {
  auto world = NewWorld(3);
  for (uint64_t round = 1; round <= 100; ++round) {
    Call call(*world, {.kind = round % 2 == 0 ? OpKind::kAllReduce : OpKind::kAllGather,
                       .shape = {static_cast<int64_t>(round * round)},
                       .seed = round});
    for (int id = 0; id < 3; ++id) {
      WriteElements(call.input(id), Bytes(call.contents(id).size(), 0xEE));
    }
    const auto post = [&](Rank& rank) -> absl::Status {
      const int id = rank.id();
      MP_RETURN_IF_ERROR(rank.stream().Launch(
          Under().kernel([&call, id] { WriteElements(call.input(id), call.contents(id)); })));
      MP_RETURN_IF_ERROR(call.Post(rank.region()));
      return rank.stream().Launch(Under().kernel([&call, id] {
        EXPECT_EQ(FirstDifference(call.spec().dtype, ReadElements(call.output(id)), call.expected(),
                                  true),
                  "");
      }));
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    call.ExpectDone();
  }
}

TEST(Str2, WhatAKernelHoldsLivesUntilItHasRunAndNoLonger) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(1);
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  int seen = -1;
  EXPECT_OK(stepped.rank(0).stream().Launch(
      Under().kernel([held = std::exchange(held, nullptr), &seen] { seen = *held; })));
  EXPECT_FALSE(watched.expired());
  EXPECT_OK(stepped.Synchronize(0));
  EXPECT_EQ(seen, 0);
  EXPECT_OK(stepped.rank(0).stream().Launch(Under().kernel([] {})));
  EXPECT_OK(stepped.Synchronize(0));
  EXPECT_TRUE(watched.expired());
}

TEST(Str2, MemoryMayGoOnceTheStreamIsEmpty) {
  auto world = NewWorld(2);
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int round = 0; round < 50; ++round) {
      MP_ASSIGN_OR_RETURN(Buffer x, rank.device().Allocate(DType::kI32, {256 + round}));
      WriteElements(x.view(), Bytes(static_cast<size_t>(x.view().size_bytes()), 1));
      MP_RETURN_IF_ERROR(rank.region().AllReduce(x.view()));
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());
      EXPECT_EQ(ReadElements(x.view()), Bytes(static_cast<size_t>(x.view().size_bytes()), 2));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
}

TEST(Stream, RunsItsWorkInOrder) {
  auto world = NewWorld(1);
  std::vector<int> ran;
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 200; ++i) {
      MP_RETURN_IF_ERROR(rank.stream().Launch(Under().kernel([&ran, i] { ran.push_back(i); })));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ran[At(i)], i);
}

TEST(Stream, WaitsForAnEventOfAnother) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SteppedWorld stepped(1, seed);
    Rank& rank = stepped.rank(0);
    std::vector<int> ran;
    const auto note = [&](int what) {
      return Under().kernel([&ran, what] { ran.push_back(what); });
    };
    ASSERT_OK_AND_ASSIGN(Stream * other, rank.NewStream());
    EXPECT_OK(rank.stream().Launch(note(1)));
    EXPECT_OK(other->Wait(rank.stream().Record()));
    EXPECT_OK(other->Launch(note(2)));
    EXPECT_OK(rank.stream().Wait(other->Record()));
    EXPECT_OK(rank.stream().Wait(rank.stream().Record()));  // of itself: nothing to wait for
    EXPECT_OK(rank.stream().Launch(note(3)));
    EXPECT_OK(rank.stream().Synchronize());
    EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  }
}

TEST(Stream, CopiesBetweenPitches) {
  auto world = NewWorld(1);
  Tensor from(world->device(0), DType::kI16, {3, 5}, {.gap = 2}),
      to(world->device(0), DType::kI16, {3, 5}, {.offset = 2, .gap = 4});
  from.Fill(AnyBits(DType::kI16, 15, 1));
  const auto post = [&](Rank& rank) -> absl::Status {
    EXPECT_THAT(rank.stream().Copy(from.view(), to.view().Columns(0, 4).value()),
                KindIs(ErrorKind::kInvalidArgument));
    EXPECT_THAT(rank.stream().Copy(TensorView(), to.view()), KindIs(ErrorKind::kInvalidArgument));
    return rank.stream().Copy(from.view(), to.view());
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  to.ExpectElements(from.Elements(), "the copy");
}

TEST(Stream, ScalesIntoAnotherTensorOrInPlace) {
  SKIP_UNLESS(scales);
  auto world = NewWorld(1);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    Tensor from(world->device(0), dtype, {3, 5}), to(world->device(0), dtype, {3, 5});
    const Bytes numbers = WildNumbers(dtype, 15, 1);
    from.Fill(numbers);
    const auto post = [&](Rank& rank) -> absl::Status {
      EXPECT_THAT(rank.stream().Scale(from.view(), to.view().Columns(0, 4).value(), 2),
                  KindIs(ErrorKind::kInvalidArgument));
      MP_RETURN_IF_ERROR(rank.stream().Scale(from.view(), to.view(), 3));
      return rank.stream().Scale(from.view(), from.view(), 0.5);
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    to.ExpectElements(Fold(dtype, ReduceOp::kSum, 3, {numbers}), "three times");
    from.ExpectElements(Fold(dtype, ReduceOp::kSum, 0.5, {numbers}), "half");
  }
}

TEST(Stream, TellsTheFirstErrorOfItsWorkOnceAndGoesOn) {
  SKIP_UNLESS(compute_can_fail);
  auto world = NewWorld(1);
  std::vector<absl::Status> told;
  bool ran = false;
  const auto post = [&](Rank& rank) -> absl::Status {
    Stream& stream = rank.stream();
    for (const char* what : {"no more paper", "no more ink"}) {
      MP_RETURN_IF_ERROR(stream.Launch(Under().kernel([what] { throw std::runtime_error(what); })));
    }
    MP_RETURN_IF_ERROR(stream.Launch(Under().kernel([&] { ran = true; })));
    for (int i = 0; i < 2; ++i) told.push_back(stream.Synchronize());
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  EXPECT_THAT(told[0], KindIs(ErrorKind::kUserException, HasSubstr("no more paper")));
  EXPECT_OK(told[1]);
  EXPECT_TRUE(ran);
}

TEST(Stream, AnErrorOfAKernelIsToldByRunAtTheLatest) {
  SKIP_UNLESS(compute_can_fail);
  auto world = NewWorld(2);
  const absl::Status status = world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 1) {
      return rank.stream().Launch(
          Under().kernel([] { throw std::runtime_error("no more paper"); }));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(status, KindIs(ErrorKind::kUserException, HasSubstr("no more paper")));
}

}  // namespace
}  // namespace mp::test
