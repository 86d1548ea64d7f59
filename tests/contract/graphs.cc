// CAP-1, CAP-2, CAP-5: a graph does what its calls do, as often as it is launched and on what the
// tensors hold then; nothing of it happens while it is captured; and it may be let go of at any
// time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<uint32_t>;

Words ReadWords(const TensorView& view) {
  const Bytes bytes = ReadElements(view);
  Words words(bytes.size() / 4);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

void WriteWords(const TensorView& view, const Words& words) {
  Bytes bytes(words.size() * 4);
  if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  WriteElements(view, bytes);
}

// The arithmetic of a rank's kernel, one element of it.
uint32_t Mix(uint32_t x, int rank, size_t i) {
  return x * 3 + static_cast<uint32_t>(rank) + static_cast<uint32_t>(i);
}

// A step of a model with state: every rank mixes its x, all sum it up, each takes columns of its
// own, all join those, and x gets the first of them added.  Any error of order or place spreads.
class Model {
 public:
  explicit Model(World& world) {
    for (int rank = 0; rank < world.world_size(); ++rank) {
      const int64_t width = rank;  // rank 0 has none
      x_.emplace_back(world.device(rank), DType::kI32, Shape{kCount});
      part_.emplace_back(world.device(rank), DType::kI32, Shape{1, width});
      joined_.emplace_back(world.device(rank), DType::kI32, Shape{1, Joined(world.world_size())});
      Set(rank, Words(kCount, static_cast<uint32_t>(100 * rank)));
    }
  }

  void Set(int rank, const Words& words) { WriteWords(x_[At(rank)].view(), words); }
  Words Get(int rank) const { return ReadWords(x_[At(rank)].view()); }
  Words GetJoined(int rank) const { return ReadWords(joined_[At(rank)].view()); }

  absl::Status Step(RankRegion& region) {
    const int r = region.peer();
    const TensorView x = x_[At(r)].view(), part = part_[At(r)].view(),
                     joined = joined_[At(r)].view();
    MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([x, r] {
      Words words = ReadWords(x);
      for (size_t i = 0; i < words.size(); ++i) words[i] = Mix(words[i], r, i);
      WriteWords(x, words);
    })));
    MP_RETURN_IF_ERROR(region.AllReduce(x));
    MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([x, part, r] {
      const Words words = ReadWords(x);
      Words mine(At(r));
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = words[i] + static_cast<uint32_t>(r);
      WriteWords(part, mine);
    })));
    MP_RETURN_IF_ERROR(region.AllGather(part, joined));
    return region.stream().Launch(Under().kernel([x, joined, r] {
      Words words = ReadWords(x);
      words[At(r)] += ReadWords(joined).back();
      WriteWords(x, words);
    }));
  }

  // What a step makes of all ranks' x, by the definition.
  static void Simulate(std::vector<Words>& xs, Words& joined) {
    const size_t n = xs.size();
    Words sum(kCount, 0);
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += Mix(xs[r][i], static_cast<int>(r), i);
    }
    joined.clear();
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = 0; i < r; ++i) joined.push_back(sum[i] + static_cast<uint32_t>(r));
    }
    for (size_t r = 0; r < n; ++r) {
      xs[r] = sum;
      xs[r][r] += joined.back();
    }
  }

 private:
  static constexpr int64_t kCount = 5;
  static int64_t Joined(int ranks) { return ranks * (ranks - 1) / 2; }
  std::deque<Tensor> x_, part_, joined_;
};

TEST(Cap1, TenThousandReplaysEqualTenThousandPlainRuns) {
  SKIP_UNLESS(graphs);
  constexpr int kRanks = 3, kTurns = 10;
  const int kRounds = Under().replays / kTurns;
  const std::shared_ptr<Backend> backend = NewBackend(kRanks);
  ASSERT_OK_AND_ASSIGN(auto world, World::Create(backend));
  ASSERT_OK_AND_ASSIGN(auto plain_world, World::Create(backend));
  Model model(*world), plain(*plain_world);
  std::vector<Graph> graphs(kRanks);
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(graphs[At(rank.id())], rank.region().Capture([&](RankRegion& region) {
      return model.Step(region);
    }));
    return absl::OkStatus();
  }));
  std::vector<Words> simulated;
  for (int rank = 0; rank < kRanks; ++rank) simulated.push_back(model.Get(rank));
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    // Every rank's input changes between launches.
    for (size_t rank = 0; rank < kRanks; ++rank) {
      simulated[rank][turn % 5] += 7 * turn + static_cast<uint32_t>(rank);
      model.Set(static_cast<int>(rank), simulated[rank]);
      plain.Set(static_cast<int>(rank), simulated[rank]);
    }
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      for (int round = 0; round < kRounds; ++round) {
        // Now and then as plain calls.
        MP_RETURN_IF_ERROR(round % 100 == 99 ? model.Step(rank.region())
                                             : graphs[At(rank.id())].Launch());
      }
      return absl::OkStatus();
    }));
    EXPECT_OK(plain_world->Run([&](Rank& rank) -> absl::Status {
      for (int round = 0; round < kRounds; ++round) MP_RETURN_IF_ERROR(plain.Step(rank.region()));
      return absl::OkStatus();
    }));
    Words joined;
    for (int round = 0; round < kRounds; ++round) Model::Simulate(simulated, joined);
    for (int rank = 0; rank < kRanks; ++rank) {
      SCOPED_TRACE(absl::StrCat("turn ", turn, " rank ", rank));
      ASSERT_EQ(model.Get(rank), simulated[At(rank)]);
      ASSERT_EQ(plain.Get(rank), simulated[At(rank)]);
      ASSERT_EQ(model.GetJoined(rank), joined);
    }
  }
}

// Inputs as they were at first, outputs poison.
void SetBack(const Call& call) {
  for (int peer = 0; peer < call.world_size(); ++peer) {
    const TensorView output = call.output(peer);
    if (!output.is_null()) {
      WriteElements(output, Bytes(static_cast<size_t>(output.size_bytes()), 0xEE));
    }
  }
  for (int peer = 0; peer < call.world_size(); ++peer) {
    WriteElements(call.input(peer), call.contents(peer));
  }
}

// Every kind of operation: on the compute stream, overlapped, and in a batch.
struct Everything {
  std::deque<Call> posted, started, batched;

  explicit Everything(World& world) {
    for (const CallSpec& spec : OneOfEach()) {
      posted.emplace_back(world, spec);
      started.emplace_back(world, spec);
      batched.emplace_back(world, spec);
    }
    for (int root = 0; root < world.world_size(); ++root) {
      posted.emplace_back(
          world,
          CallSpec{.kind = OpKind::kGather, .shape = {3, 0}, .extents = {4, 0, 3}, .root = root});
    }
  }
  absl::Status Record(RankRegion& region) const {
    std::vector<Work> works;
    for (const Call& call : started) {
      MP_ASSIGN_OR_RETURN(Work work, call.Start(region));
      works.push_back(work);
    }
    for (const Call& call : posted) MP_RETURN_IF_ERROR(call.Post(region));
    Batch batch = region.NewBatch();
    for (const Call& call : batched) MP_RETURN_IF_ERROR(call.AddTo(batch, region.peer()));
    MP_RETURN_IF_ERROR(batch.End());
    MP_RETURN_IF_ERROR(region.AcquireSlot());
    for (const Work& work : works) MP_RETURN_IF_ERROR(work.Wait(region.stream()));
    return absl::OkStatus();
  }
  template <typename F>
  void ForEach(F f) const {
    for (const auto* calls : {&posted, &started, &batched}) {
      for (const Call& call : *calls) f(call);
    }
  }
};

TEST(Cap1, EveryOperationIsRecordedAndNothingRunsBeforeALaunch) {
  SKIP_UNLESS(graphs);
  for (const Door door : {Door::kRun, Door::kAttach}) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    const Everything all(*world);
    std::vector<Graph> graphs(3);
    EXPECT_THAT(Drive(*world, door,
                      [&](Rank& rank) -> absl::Status {
                        MP_ASSIGN_OR_RETURN(
                            graphs[At(rank.id())],
                            rank.region().Capture([&](RankRegion& r) { return all.Record(r); }));
                        return absl::OkStatus();
                      }),
                Each(IsOk()));
    all.ForEach([](const Call& call) { call.ExpectUntouched(); });
    for (int launch = 0; launch < 3; ++launch) {
      EXPECT_THAT(Drive(*world, door, [&](Rank& rank) { return graphs[At(rank.id())].Launch(); }),
                  Each(IsOk()));
      all.ForEach([](const Call& call) {
        call.ExpectDone();
        SetBack(call);
      });
    }
  }
}

TEST(Cap1, OneThreadCapturesAndLaunchesForAllRanks) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3, {.rank_threads = false});
  const Everything all(*world);
  ASSERT_OK_AND_ASSIGN(Graph graph,
                       world->region().Capture([&](RankRegion& r) { return all.Record(r); }));
  all.ForEach([](const Call& call) { call.ExpectUntouched(); });
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_OK(graph.Launch());
    EXPECT_OK(world->Synchronize());
    all.ForEach([](const Call& call) {
      call.ExpectDone();
      SetBack(call);
    });
  }
  // And so does each rank's own thread.
  EXPECT_THAT(Drive(*world, Door::kAttach,
                    [&](Rank& rank) -> absl::Status {
                      MP_ASSIGN_OR_RETURN(const Graph mine, graph.ForRank(rank));
                      return mine.Launch();
                    }),
              Each(IsOk()));
  all.ForEach([](const Call& call) { call.ExpectDone(); });
}

// Ranks that one thread drives, on a graph that it has captured before; every schedule of a seed.
struct Stepped {
  explicit Stepped(int ranks, uint64_t seed)
      : world(World::Create(
                  Under()
                      .make({.devices = ranks, .seeded = true, .seed = seed, .clock = &clock})
                      .value(),
                  {.rank_threads = false})
                  .value()) {}
  sync::FakeClock clock;
  std::unique_ptr<World> world;
};

TEST(Cap1, LanesAreOrderedInEverySchedule) {
  SKIP_UNLESS(graphs);
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("schedule ", seed));
    Stepped stepped(3, seed);
    World& world = *stepped.world;
    Call first(world, {.kind = OpKind::kAllGather, .shape = {2, 0}}),
        second(world, {.dtype = DType::kBF16, .shape = {9}});
    Call* const calls[] = {&first, &second};
    int looked = 0;
    ASSERT_OK_AND_ASSIGN(
        Graph graph, world.region().Capture([&](RankRegion& region) -> absl::Status {
          const int id = region.peer();
          std::vector<Work> works;
          for (Call* call : calls) {  // made right before it starts
            MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel(
                [call, id] { WriteElements(call->input(id), call->contents(id)); })));
            MP_ASSIGN_OR_RETURN(Work work, call->Start(region));
            works.push_back(work);
          }
          MP_RETURN_IF_ERROR(works[1].Wait(region.stream()));  // the second, and so both
          return region.stream().Launch(Under().kernel([&, id] {
            for (Call* call : calls) {
              EXPECT_EQ(FirstDifference(call->spec().dtype, ReadElements(call->output(id)),
                                        call->expected(), true),
                        "");
              WriteElements(call->input(id), Bytes(call->contents(id).size(), 0xEE));
            }
            ++looked;
          }));
        }));
    std::vector<Attachment> ranks;
    for (int id = 0; id < 3; ++id) ranks.push_back(world.Attach(id).value());
    Random random(seed);
    for (int launch = 1; launch <= 3; ++launch) {
      for (const int id : random.Permutation(3)) {
        ASSERT_OK_AND_ASSIGN(const Graph mine, graph.ForRank(*ranks[At(id)]));
        EXPECT_OK(mine.Launch());
        EXPECT_OK(mine.Launch());
      }
      for (Attachment& rank : ranks) EXPECT_OK(rank->stream().Synchronize());
      EXPECT_EQ(looked, 6 * launch);
    }
  }
}

TEST(Cap1, GraphsOfTwoRegionsAndPlainOperationsAreOrderedByTheirCalls) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  ASSERT_OK_AND_ASSIGN(Region left, world->NewRegion({0, 1}));
  ASSERT_OK_AND_ASSIGN(Region right, world->NewRegion({2, 1}));
  std::deque<Tensor> tensors;
  for (int rank = 0; rank < 3; ++rank) {
    tensors.emplace_back(world->device(rank), DType::kI32, Shape{2});
    WriteWords(tensors.back().view(), {static_cast<uint32_t>(rank + 1), 10});
  }
  constexpr int kRounds = 200;
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    const TensorView x = tensors[At(rank.id())].view();
    const auto sum = [&](RankRegion& region) { return region.AllReduce(x); };
    Graph on_left, on_right;
    if (rank.id() != 2) {
      MP_ASSIGN_OR_RETURN(RankRegion mine, left.ForRank(rank));
      MP_ASSIGN_OR_RETURN(on_left, mine.Capture(sum));
    }
    if (rank.id() != 0) {
      MP_ASSIGN_OR_RETURN(RankRegion mine, right.ForRank(rank));
      MP_ASSIGN_OR_RETURN(on_right, mine.Capture(sum));
    }
    MP_ASSIGN_OR_RETURN(Graph on_all, rank.region().Capture(sum));
    for (int round = 0; round < kRounds; ++round) {
      if (rank.id() != 2) MP_RETURN_IF_ERROR(on_left.Launch());
      if (rank.id() != 0) MP_RETURN_IF_ERROR(on_right.Launch());
      MP_RETURN_IF_ERROR(round % 3 == 0 ? sum(rank.region()) : on_all.Launch());
    }
    return absl::OkStatus();
  }));
  std::vector<Words> expected = {{1, 10}, {2, 10}, {3, 10}};
  const auto add = [&](std::vector<size_t> ranks) {
    for (size_t i = 0; i < 2; ++i) {
      uint32_t sum = 0;
      for (const size_t r : ranks) sum += expected[r][i];
      for (const size_t r : ranks) expected[r][i] = sum;
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    add({0, 1});
    add({1, 2});
    add({0, 1, 2});
  }
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ReadWords(tensors[At(rank)].view()), expected[At(rank)]);
  }
}

TEST(Cap1, ARegionOfOneRankHasGraphsToo) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(1);
  Tensor x(world->device(0), DType::kI32, {3}), y(world->device(0), DType::kI32, {3}),
      z(world->device(0), DType::kI32, {3});
  int runs = 0;
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([&runs] { ++runs; })));
      MP_RETURN_IF_ERROR(region.AllReduce(x.view(), y.view()));
      MP_RETURN_IF_ERROR(region.stream().Copy(y.view(), z.view()));
      MP_ASSIGN_OR_RETURN(Work work, region.StartAllReduce(x.view()));
      return work.Wait(region.stream());
    }));
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    EXPECT_EQ(runs, 0);
    for (int launch = 1; launch <= 3; ++launch) {
      x.Fill(AnyBits(DType::kI32, 3, static_cast<uint64_t>(launch)));
      MP_RETURN_IF_ERROR(graph.Launch());
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());
      EXPECT_EQ(runs, launch);
      z.ExpectElements(x.Elements(), "the copy of the result");
    }
    EXPECT_THAT(rank.region().Capture([&](RankRegion& region) {
      const TensorView inside(static_cast<char*>(x.view().data()) + 4, DType::kI32, {2});
      return region.AllReduce(TensorView(x.view().data(), DType::kI32, {2}), inside);
    }),
                KindIs(ErrorKind::kInvalidArgument));
    return graph.Launch();
  }));
}

TEST(Cap1, CopiesAndScalingsAreRecorded) {
  SKIP_UNLESS(graphs);
  SKIP_UNLESS(scales);
  auto world = NewWorld(2);
  std::deque<Tensor> from, to;
  for (int rank = 0; rank < 2; ++rank) {
    from.emplace_back(world->device(rank), DType::kF32, Shape{2, 3}, Layout{.gap = 1});
    to.emplace_back(world->device(rank), DType::kF32, Shape{2, 3});
    from.back().Fill(EncodeAll(DType::kF32, {1, 2, 3, 4, 5, 6.5}));
  }
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    const TensorView source = from[At(rank.id())].view(), target = to[At(rank.id())].view();
    MP_ASSIGN_OR_RETURN(Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(region.stream().Copy(source, target));
      MP_RETURN_IF_ERROR(region.AllReduce(target));
      return region.stream().Scale(target, target, 0.5);
    }));
    MP_RETURN_IF_ERROR(graph.Launch());
    return graph.Launch();
  }));
  for (Tensor& tensor : to) tensor.ExpectElements(EncodeAll(DType::kF32, {1, 2, 3, 4, 5, 6.5}), "");
}

TEST(Cap1, AKernelThatFailsIsToldByTheRanksStream) {
  SKIP_UNLESS(graphs);
  SKIP_UNLESS(compute_can_fail);
  auto world = NewWorld(2);
  Call call(*world, {.shape = {6}});
  std::vector<absl::Status> told(2);
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    int runs = 0;
    MP_ASSIGN_OR_RETURN(Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(region.stream().Launch([&runs, id = rank.id()]() -> absl::Status {
        if (++runs == 2 && id == 1) return absl::DataLossError("the second time");
        return absl::OkStatus();
      }));
      return call.Post(region);
    }));
    MP_RETURN_IF_ERROR(graph.Launch());
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    MP_RETURN_IF_ERROR(graph.Launch());
    told[At(rank.id())] = rank.stream().Synchronize();
    MP_RETURN_IF_ERROR(graph.Launch());
    return rank.stream().Synchronize();
  }));
  EXPECT_THAT(told, ElementsAre(IsOk(), KindIs(ErrorKind::kDeviceError, HasSubstr("second time"))));
  call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
