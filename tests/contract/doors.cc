// World and its doors: options, who may drive a rank and when, the one-call door.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(World, RefusesOptionsThatCannotBe) {
  const std::shared_ptr<Backend> backend = NewBackend(3);
  const std::vector<std::pair<WorldOptions, const char*>> wrong = {
      {{.devices = {0, 3}}, "3"},
      {{.devices = {-1}}, "-1"},
      {{.absence_timeout = -absl::Seconds(1)}, "absence_timeout"},
      {{.absence_warning = -absl::Seconds(1)}, "absence_warning"},
      {{.close_timeout = -absl::Seconds(1)}, "close_timeout"},
      {{.device_deadline = -absl::Seconds(1)}, "device_deadline"},
  };
  for (const auto& [options, says] : wrong) {
    EXPECT_THAT(World::Create(backend, options).status(),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(says)));
  }
  EXPECT_THAT(World::Create(nullptr, {}).status(), KindIs(ErrorKind::kInvalidArgument));
  EXPECT_OK(World::Create(backend, {}));
}

TEST(World, HasARankOnEachDeviceUnlessToldOtherwise) {
  const std::shared_ptr<Backend> backend = NewBackend(3);
  EXPECT_EQ(World::Create(backend, {}).value()->world_size(), 3);
  auto world = World::Create(backend, {.devices = {2, 1}}).value();
  EXPECT_EQ(world->world_size(), 2);
  EXPECT_EQ(world->device(0).index(), 2);
  EXPECT_EQ(world->device(1).index(), 1);
  EXPECT_EQ(&world->backend(), backend.get());
}

TEST(Dev1, SeveralRanksMayHaveOneDevice) {
  SKIP_UNLESS(shares_devices);
  auto world = World::Create(NewBackend(2), {.devices = {1, 0, 1, 1}}).value();
  for (const CallSpec& spec : OneOfEach()) {
    Call call(*world, spec);
    const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    call.ExpectDone();
  }
}

TEST(World, RunCallsEveryRankOnceAndReturnsWhenStreamsAreEmpty) {
  auto world = NewWorld(3);
  for (int round = 0; round < 20; ++round) {
    Call call(*world, {.kind = OpKind::kAllGather, .shape = {40, 0}, .seed = At(round)});
    std::vector<std::atomic<int>> calls(3);
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      ++calls[At(rank.id())];
      MP_RETURN_IF_ERROR(call.Post(rank.region()));
      return call.Start(rank.region()).status();  // and nobody waits for it
    }));
    for (const auto& count : calls) EXPECT_EQ(count, 1);
    call.ExpectDone();
  }
}

TEST(World, RunsOneAtATime) {
  auto world = NewWorld(2);
  Progress inside, told;
  OnThreads(2, [&](int which) {
    if (which == 0) {
      EXPECT_OK(world->Run([&](Rank&) {
        inside.Add();
        told.AwaitAtLeast(1);
        return absl::OkStatus();
      }));
    } else {
      inside.AwaitAtLeast(2);
      EXPECT_THAT(world->Run([](Rank&) { return absl::OkStatus(); }),
                  KindIs(ErrorKind::kUsageError));
      EXPECT_THAT(world->Attach(0).status(), KindIs(ErrorKind::kUsageError));
      told.Add();
    }
  });
  EXPECT_OK(world->Run([](Rank&) { return absl::OkStatus(); }));
}

TEST(Attach, GivesARankToOneThreadAtATime) {
  auto world = NewWorld(2, {.rank_threads = false});
  {
    Attachment rank = world->Attach(1).value();
    EXPECT_EQ(rank->id(), 1);
    EXPECT_THAT(world->Attach(1).status(), KindIs(ErrorKind::kUsageError, HasSubstr("1")));
    Attachment moved = std::move(rank);
    EXPECT_EQ(moved->id(), 1);
    EXPECT_THAT(world->Attach(1).status(), KindIs(ErrorKind::kUsageError));
  }
  EXPECT_OK(world->Attach(1).status());
  for (const int rank : {-1, 2}) {
    EXPECT_THAT(world->Attach(rank).status(),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(absl::StrCat(rank))));
  }
}

TEST(Attach, AndRunExcludeEachOther) {
  auto world = NewWorld(2);
  {
    Attachment rank = world->Attach(0).value();
    EXPECT_THAT(world->Run([](Rank&) { return absl::OkStatus(); }), KindIs(ErrorKind::kUsageError));
  }
  EXPECT_OK(world->Run([](Rank&) { return absl::OkStatus(); }));
  world.reset();
  world = NewWorld(2, {.rank_threads = false});
  EXPECT_THAT(world->Run([](Rank&) { return absl::OkStatus(); }), KindIs(ErrorKind::kUsageError));
}

TEST(Attach, ARankMayChangeItsThreadBetweenOperations) {
  for (const bool rank_threads : {false, true}) {
    auto world = NewWorld(2, {.rank_threads = rank_threads});
    for (int round = 0; round < 10; ++round) {
      Call call(*world, {.kind = OpKind::kAllGather, .seed = At(round)});
      const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
      EXPECT_THAT(Drive(*world, Door::kAttach, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Attach, ARankThatHasLeftMayComeBackAfterItsPeersHaveCalled) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2, {.rank_threads = false});
  for (int round = 0; round < 3; ++round) {
    Call call(*world, {.kind = OpKind::kAllGather, .seed = At(round)});
    Attachment rank = world->Attach(0).value();
    EXPECT_OK(call.Post(rank->region()));
    Attachment peer = world->Attach(1).value();
    EXPECT_OK(call.Post(peer->region()));
    EXPECT_OK(rank->stream().Synchronize());
    EXPECT_OK(peer->stream().Synchronize());
    call.ExpectDone();
  }
}

TEST(OneCall, HasOnlyTheStartFormsWhileARankIsDriven) {
  auto world = NewWorld(2);
  Call reduce(*world, {.inputs = Inputs::kInPlace});
  Call gather(*world, {.kind = OpKind::kGather, .shape = {2, 0}});
  Call overlapped(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
  const auto try_all = [&] {
    EXPECT_THAT(reduce.Post(world->region()), KindIs(ErrorKind::kUsageError));
    EXPECT_THAT(gather.Post(world->region()), KindIs(ErrorKind::kUsageError));
    ASSERT_OK_AND_ASSIGN(std::vector<Work> works, overlapped.Start(world->region()));
    for (const Work& work : works) EXPECT_OK(work.Synchronize());
  };
  const auto post = [&](Rank& rank) {
    if (rank.id() == 0) try_all();
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  overlapped.ExpectDone();
  {
    Attachment rank = world->Attach(1).value();
    try_all();
  }
  reduce.ExpectUntouched();
  gather.ExpectUntouched();
  EXPECT_OK(reduce.Post(world->region()));  // nobody drives them now
  EXPECT_OK(world->Synchronize());
  reduce.ExpectDone();
}

TEST(OneCall, WantsOneTensorForEachRank) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kAllGather, .shape = {4}, .extents = {1, 1, 1}});
  const std::vector<TensorView> all = {call.input(0), call.input(1), call.input(2)};
  const std::vector<TensorView> outputs = {call.output(0), call.output(1), call.output(2)};
  const auto two = absl::MakeConstSpan(all).first(2);
  const auto kInvalid = ErrorKind::kInvalidArgument;
  Region& region = world->region();
  EXPECT_THAT(region.AllReduce(two), KindIs(kInvalid, HasSubstr("2")));
  EXPECT_THAT(region.AllReduce({}), KindIs(kInvalid));
  EXPECT_THAT(region.AllReduce(all, two), KindIs(kInvalid, HasSubstr("2")));
  EXPECT_THAT(region.Gather(two, outputs[0], 0), KindIs(kInvalid, HasSubstr("2")));
  EXPECT_THAT(region.AllGather(all, two), KindIs(kInvalid, HasSubstr("2")));
  EXPECT_THAT(region.StartAllReduce(two).status(), KindIs(kInvalid, HasSubstr("2")));
  EXPECT_OK(call.Post(region));
  EXPECT_OK(world->Synchronize());
  call.ExpectDone();
}

TEST(OneCall, TensorsThatDisagreeAreRefusedAndHarmNothing) {
  auto world = NewWorld(3);
  Region& region = world->region();
  Call one(*world, {.shape = {6}, .inputs = Inputs::kInPlace});
  Call other(*world, {.shape = {7}, .inputs = Inputs::kInPlace});
  Call typed(*world, {.dtype = DType::kI32, .shape = {6}, .inputs = Inputs::kInPlace});
  Call gather(*world, {.kind = OpKind::kAllGather, .shape = {3, 0}});
  Call taller(*world, {.kind = OpKind::kAllGather, .shape = {4, 0}});
  const auto refused = AnyOf(KindIs(ErrorKind::kInvalidArgument), KindIs(ErrorKind::kMismatch));
  EXPECT_THAT(region.AllReduce({one.input(0), one.input(1), other.input(2)}), refused);
  EXPECT_THAT(region.AllReduce({one.input(0), typed.input(1), one.input(2)}), refused);
  EXPECT_THAT(
      region.Gather({gather.input(0), gather.input(1), taller.input(2)}, gather.output(0), 0),
      refused);
  EXPECT_THAT(
      region.Gather({gather.input(0), gather.input(1), gather.input(1)}, gather.output(0), 0),
      refused);  // 1 + 2 + 2 columns do not make 6
  EXPECT_OK(world->Synchronize());
  EXPECT_OK(region.status());
  for (const Call* call : {&one, &other, &typed, &gather, &taller}) call->ExpectUntouched();
  EXPECT_OK(one.Post(region));
  EXPECT_OK(world->Synchronize());
  one.ExpectDone();
}

TEST(OneCall, StandsInTheRanksStreams) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SteppedWorld stepped(2, seed);
    stepped.Leave(0);
    stepped.Leave(1);
    World& world = stepped.world();
    Call call(world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
    int seen = 0;
    for (int id = 0; id < 2; ++id) {
      WriteElements(call.input(id), Bytes(call.contents(id).size(), 0xEE));
      EXPECT_OK(world.stream(id).Launch(
          Under().kernel([&call, id] { WriteElements(call.input(id), call.contents(id)); })));
    }
    EXPECT_OK(call.Post(world.region()));
    for (int id = 0; id < 2; ++id) {
      EXPECT_OK(world.stream(id).Launch(Under().kernel([&call, &seen, id] {
        ++seen;
        EXPECT_EQ(ReadElements(call.output(id)), call.expected());
      })));
    }
    EXPECT_OK(world.Synchronize());
    EXPECT_EQ(seen, 2);
  }
}

TEST(OneCall, AndTheRanksMayCallInTurn) {
  auto world = NewWorld(3);
  for (int round = 0; round < 10; ++round) {
    Call by_one(*world, {.seed = At(round)}), by_ranks(*world, {.kind = OpKind::kAllGather});
    EXPECT_OK(by_one.Post(world->region()));
    const auto post = [&](Rank& rank) { return by_ranks.Post(rank.region()); };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    by_one.ExpectDone();
    by_ranks.ExpectDone();
  }
}

}  // namespace
}  // namespace mp::test
