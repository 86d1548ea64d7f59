#include "tests/contract/drive.h"

#include "mp/base/check.h"

namespace mp::test {
namespace {

WorldOptions ForTests(WorldOptions options) {
  if (options.absence_timeout == WorldOptions().absence_timeout) {
    options.absence_timeout = absl::Minutes(1);
  }
  // However busy the machine is.
  if (options.close_timeout == WorldOptions().close_timeout) {
    options.close_timeout = absl::Minutes(1);
  }
  return options;
}

}  // namespace

std::shared_ptr<Backend> NewBackend(int devices) {
  return Under().make({.devices = devices}).value();
}

std::unique_ptr<World> NewWorld(int ranks, WorldOptions options) {
  return World::Create(NewBackend(ranks), ForTests(std::move(options))).value();
}

std::vector<Door> RankDoors() {
  if (!Under().doors_never_wait) return {Door::kRun, Door::kAttach};
  return {Door::kRun, Door::kAttach, Door::kOneThread};
}

std::vector<absl::Status> Drive(World& world, Door door,
                                const std::function<absl::Status(Rank&)>& post) {
  std::vector<absl::Status> told(static_cast<size_t>(world.world_size()));
  const auto call = [&](Rank& rank) { told[At(rank.id())] = post(rank); };
  const auto wait = [&](Rank& rank) {
    const absl::Status waited = rank.stream().Synchronize();
    absl::Status& status = told[At(rank.id())];
    if (status.ok()) status = waited;
  };
  const auto attach = [&](int rank) { return world.Attach(rank).value(); };
  switch (door) {
    case Door::kRun:
      EXPECT_OK(world.Run([&](Rank& rank) {
        call(rank);
        wait(rank);
        return absl::OkStatus();
      }));
      break;
    case Door::kAttach: {
      Progress attached;
      OnThreads(world.world_size(), [&](int id) {
        Attachment rank = attach(id);
        attached.Add();
        attached.AwaitAtLeast(world.world_size());
        call(*rank);
        wait(*rank);
      });
      break;
    }
    case Door::kOneThread: {
      std::vector<Attachment> ranks;
      for (int id = 0; id < world.world_size(); ++id) ranks.push_back(attach(id));
      for (Attachment& rank : ranks) call(*rank);
      for (Attachment& rank : ranks) wait(*rank);
      break;
    }
  }
  return told;
}

std::vector<absl::Status> Drive(World& world, const std::function<absl::Status(Rank&)>& post) {
  return Drive(world, Door::kRun, post);
}

SteppedWorld::SteppedWorld(int ranks, uint64_t seed, WorldOptions options) {
  options.rank_threads = false;
  world_ =
      World::Create(
          Under().make({.devices = ranks, .seeded = true, .seed = seed, .clock = &clock_}).value(),
          options)
          .value();
  for (int id = 0; id < ranks; ++id) ranks_.emplace_back(world_->Attach(id).value());
}

void SteppedWorld::Away(int id) {
  Leave(id);
  OnThreads(1, [&](int) { ranks_[At(id)].emplace(world_->Attach(id).value()); });
}

std::vector<absl::Status> SteppedWorld::SynchronizeAll() {
  std::vector<absl::Status> told;
  for (auto& rank : ranks_) {
    if (rank.has_value()) told.push_back((*rank)->stream().Synchronize());
  }
  return told;
}

void OnThreads(int count, const std::function<void(int)>& body) {
  std::vector<sync::Thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.push_back(sync::Thread::Start("test", [&body, i] { body(i); }).value());
  }
}

std::vector<CallSpec> OneOfEach() {
  return {
      {.kind = OpKind::kAllReduce, .shape = {3, 5}, .inputs = Inputs::kInPlace},
      {.kind = OpKind::kAllReduce, .dtype = DType::kBF16, .shape = {37}},
      {.kind = OpKind::kAllReduce, .dtype = DType::kF64, .shape = {7}, .inputs = Inputs::kMixed},
      {.kind = OpKind::kAllReduce, .dtype = DType::kI32, .shape = {9}, .shared_output = true},
      {.kind = OpKind::kGather, .shape = {3, 0}},
      {.kind = OpKind::kGather, .dtype = DType::kI8, .shape = {0, 5}, .dim = 0},
      {.kind = OpKind::kGather, .shape = {2, 0}, .inputs = Inputs::kInPlace},
      {.kind = OpKind::kAllGather, .dtype = DType::kF16, .shape = {3, 0}},
      {.kind = OpKind::kAllGather, .shape = {4, 0}, .inputs = Inputs::kMixed},
      {.kind = OpKind::kAllGather, .shape = {2, 0}, .shared_output = true},
  };
}

const char* Name(Door door) {
  switch (door) {
    case Door::kRun:
      return "World::Run";
    case Door::kAttach:
      return "a thread for each rank";
    case Door::kOneThread:
      return "one thread for all ranks";
  }
  return "?";
}

}  // namespace mp::test
