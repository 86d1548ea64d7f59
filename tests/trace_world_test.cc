// Shows what the Trace of a host World tells, whose time stands still but where a test moves it:
// each span is compared with what must have been, to the nanosecond, on every way in which work
// comes to run: at once on the rank's thread, in the queue, as the last to arrive, through the door
// of one call, on the comm stream, dropped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/host/backend.h"
#include "mp/trace.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using host::Execution;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

absl::Duration Us(int64_t n) { return absl::Microseconds(n); }

// "AllReduce 3us 5us 5us [world 0, 16 bytes]".
std::string Text(const Span& span) {
  std::string text =
      absl::StrCat(span.name, span.dropped ? " dropped " : " ", absl::FormatDuration(span.begin),
                   " ", absl::FormatDuration(span.ready), " ", absl::FormatDuration(span.end));
  if (span.region == nullptr) return text;
  absl::StrAppend(&text, " [", *span.region, " ", span.sequence, ", ", span.bytes, " bytes");
  if (span.steps != 1) absl::StrAppend(&text, ", ", span.steps, " steps");
  return absl::StrCat(text, "]");
}

std::vector<std::string> Texts(const Track& track) {
  std::vector<std::string> texts;
  for (const Span& span : track.spans()) texts.push_back(Text(span));
  return texts;
}

// Of the rank's only stream with this name in the only World.
std::vector<std::string> Texts(const Trace& trace, int rank,
                               const std::string& name = "compute stream") {
  std::vector<std::string> texts;
  int found = 0;
  for (const Track* track : trace.worlds().at(0)->tracks()) {
    if (track->rank() != rank || track->name() != name) continue;
    ++found;
    texts = Texts(*track);
  }
  EXPECT_EQ(found, 1) << name;
  return texts;
}

std::vector<absl::Duration> Parts(const TraceTotals& totals) {
  return {totals.compute, totals.all_reduce, totals.gather, totals.other};
}

// Time moves by itself too, a nanosecond whenever somebody looks.
class TickingClock final : public sync::FakeClock {
 public:
  absl::Duration Now() override {
    Advance(absl::Nanoseconds(1));
    return FakeClock::Now();
  }
};

// A traced World of two ranks, and tensors for them.  Nothing runs but on the calling thread.
class Traced {
 public:
  explicit Traced(Execution execution, bool keep_spans = true,
                  std::unique_ptr<sync::FakeClock> clock = std::make_unique<sync::FakeClock>())
      : clock_(std::move(clock)),
        trace_(std::make_shared<Trace>(TraceOptions{.keep_spans = keep_spans})),
        world_(World::Create(
                   host::NewBackend({.devices = 2, .execution = execution, .clock = clock_.get()})
                       .value(),
                   {.rank_threads = false, .trace = trace_})
                   .value()) {}

  World& world() { return *world_; }
  const Trace& trace() const { return *trace_; }
  // A kernel that takes so long.
  auto Takes(int64_t us) {
    return [this, us] { clock_->Advance(Us(us)); };
  }
  void Advance(int64_t us) { clock_->Advance(Us(us)); }
  void AttachBoth() {
    for (const int id : {0, 1}) ranks_[id].emplace(world_->Attach(id).value());
  }
  void Detach(int id) { ranks_[id].reset(); }
  Rank& rank(int id) { return **ranks_[id]; }
  RankRegion& region(int id) { return rank(id).region(); }
  // Rank 0 has 3 columns, rank 1 has 2, the joined tensor 5; x is the same on both.
  TensorView x(int id) { return {x_[id], DType::kF32, {4}}; }
  TensorView shard(int id) { return {shard_[id], DType::kF32, {2, id == 0 ? 3 : 2}}; }
  TensorView full(int id) { return {full_[id], DType::kF32, {2, 5}}; }

 private:
  std::unique_ptr<sync::FakeClock> clock_;
  std::shared_ptr<Trace> trace_;
  std::unique_ptr<World> world_;
  std::optional<Attachment> ranks_[2];
  float x_[2][4] = {}, shard_[2][6] = {}, full_[2][10] = {};
};

struct MatMul {
  static constexpr char kName[] = "MatMul";
  Traced* traced;
  int64_t us;
  void operator()() const { traced->Advance(us); }
};

TEST(TraceOfAWorld, KernelsHaveNames) {
  for (const Execution execution : {Execution::kInline, Execution::kSeeded}) {
    Traced traced(execution);
    Stream& stream = traced.world().stream(1);
    EXPECT_OK(stream.Launch(MatMul{&traced, 5}));
    EXPECT_OK(stream.Launch(traced.Takes(7)));
    EXPECT_OK(stream.Copy(traced.x(0), traced.x(1)));
    EXPECT_OK(stream.Scale(traced.x(1), traced.x(1), 2));
    traced.Advance(1);
    EXPECT_THAT(Texts(traced.trace(), 1), IsEmpty());
    EXPECT_OK(stream.Synchronize());
    EXPECT_THAT(Texts(traced.trace(), 1),
                ElementsAre("MatMul 1us 1us 6us", "kernel 6us 6us 13us", "Copy 13us 13us 13us",
                            "Scale 13us 13us 13us"));
    EXPECT_THAT(Texts(traced.trace(), 0), IsEmpty());
    EXPECT_THAT(Parts(traced.trace().TotalsOf(1)), ElementsAre(Us(12), Us(0), Us(0), Us(0)));
  }
}

TEST(TraceOfAWorld, WorkThatRunsAtOnceOnTheRanksThread) {
  Traced traced(Execution::kInline);
  Attachment rank = traced.world().Attach(0).value();
  EXPECT_OK(rank->stream().Launch(MatMul{&traced, 5}));
  EXPECT_THAT(Texts(traced.trace(), 0), ElementsAre("MatMul 0 0 5us"));
  traced.Advance(10);
  EXPECT_OK(rank->stream().Launch(traced.Takes(2)));
  EXPECT_THAT(Texts(traced.trace(), 0), ElementsAre("MatMul 0 0 5us", "kernel 15us 15us 17us"));
}

TEST(TraceOfAWorld, AKernelThatFailsOrThrowsHasRun) {
  Traced traced(Execution::kInline);
  Stream& stream = traced.world().stream(0);
  EXPECT_OK(stream.Launch([&]() -> absl::Status {
    traced.Advance(1);
    return absl::InternalError("no");
  }));
  EXPECT_OK(stream.Launch([&] {
    traced.Advance(2);
    throw 1;
  }));
  EXPECT_THAT(stream.Synchronize(), Not(IsOk()));
  EXPECT_THAT(Texts(traced.trace(), 0), ElementsAre("kernel 0 0 1us", "kernel 1us 1us 3us"));
}

// Rank 0 posts everything first; the time between is what it waits.
TEST(TraceOfAWorld, OperationsOfTheRanksDoors) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  traced.Advance(1);
  EXPECT_OK(traced.region(0).AllReduce(traced.x(0)));
  traced.Advance(2);
  EXPECT_OK(traced.region(1).AllReduce(traced.x(1)));
  EXPECT_OK(traced.region(1).Gather(traced.shard(1), {}, 0));
  traced.Advance(10);
  EXPECT_OK(traced.region(0).Gather(traced.shard(0), traced.full(0), 0));
  traced.Advance(100);
  EXPECT_OK(traced.region(0).AllGather(traced.shard(0), traced.full(0)));
  traced.Advance(1000);
  EXPECT_OK(traced.region(1).AllGather(traced.shard(1), traced.full(1)));
  EXPECT_OK(traced.region(1).AcquireSlot());
  traced.Advance(10000);
  EXPECT_OK(traced.region(0).AcquireSlot());
  // No wait was needed: the last to arrive has done it.
  EXPECT_THAT(Texts(traced.trace(), 0),
              ElementsAre("AllReduce 1us 3us 3us [world 0, 16 bytes]",
                          "Gather 13us 13us 13us [world 1, 24 bytes]",
                          "AllGather 113us 1.113ms 1.113ms [world 2, 24 bytes]",
                          "AcquireSlot 11.113ms 11.113ms 11.113ms [world 3, 0 bytes]"));
  EXPECT_THAT(Texts(traced.trace(), 1),
              ElementsAre("AllReduce 3us 3us 3us [world 0, 16 bytes]",
                          "Gather 3us 13us 13us [world 1, 16 bytes]",
                          "AllGather 1.113ms 1.113ms 1.113ms [world 2, 16 bytes]",
                          "AcquireSlot 1.113ms 11.113ms 11.113ms [world 3, 0 bytes]"));
  EXPECT_THAT(Parts(traced.trace().TotalsOf(0)), ElementsAre(Us(0), Us(2), Us(1000), Us(0)));
  EXPECT_THAT(Parts(traced.trace().TotalsOf(1)), ElementsAre(Us(0), Us(0), Us(10), Us(10000)));
}

// What a stream comes to an operation with is not a part of it; nothing has run before the wait.
TEST(TraceOfAWorld, OperationsInTheirPlacesBehindKernels) {
  for (const bool keep : {true, false}) {
    Traced traced(Execution::kSeeded, keep);
    traced.AttachBoth();
    EXPECT_OK(traced.rank(0).stream().Launch(MatMul{&traced, 5}));
    EXPECT_OK(traced.region(0).AllReduce(traced.x(0)));
    EXPECT_OK(traced.region(0).AllGather(traced.shard(0), traced.full(0)));
    // Each look runs one thing that is ready: the kernel, and then the way to the place.
    for (int i = 0; i < 2; ++i) {
      EXPECT_FALSE(traced.rank(0).stream().Synchronize(absl::ZeroDuration()).ok());
    }
    traced.Advance(30);
    EXPECT_OK(traced.rank(1).stream().Launch(MatMul{&traced, 7}));
    EXPECT_OK(traced.region(1).AllReduce(traced.x(1)));
    EXPECT_OK(traced.rank(1).stream().Launch(traced.Takes(2)));
    EXPECT_OK(traced.region(1).AllGather(traced.shard(1), traced.full(1)));
    EXPECT_OK(traced.world().Synchronize());
    EXPECT_THAT(Parts(traced.trace().TotalsOf(0)), ElementsAre(Us(5), Us(37), Us(2), Us(0)));
    EXPECT_THAT(Parts(traced.trace().TotalsOf(1)), ElementsAre(Us(9), Us(0), Us(0), Us(0)));
    if (!keep) {
      EXPECT_THAT(Texts(traced.trace(), 0), IsEmpty());
      continue;
    }
    EXPECT_THAT(Texts(traced.trace(), 0),
                ElementsAre("MatMul 0 0 5us", "AllReduce 5us 42us 42us [world 0, 16 bytes]",
                            "AllGather 42us 44us 44us [world 1, 24 bytes]"));
    EXPECT_THAT(
        Texts(traced.trace(), 1),
        ElementsAre("MatMul 35us 35us 42us", "AllReduce 42us 42us 42us [world 0, 16 bytes]",
                    "kernel 42us 42us 44us", "AllGather 44us 44us 44us [world 1, 16 bytes]"));
  }
}

TEST(TraceOfAWorld, OperationsOfTheDoorForAllRanks) {
  Traced traced(Execution::kInline);
  traced.Advance(4);
  EXPECT_OK(traced.world().region().AllReduce({traced.x(0), traced.x(1)}));
  for (const int id : {0, 1}) {
    EXPECT_THAT(Texts(traced.trace(), id),
                ElementsAre("AllReduce 4us 4us 4us [world 0, 16 bytes]"));
  }
  // A stream that is busy comes later than the other.
  EXPECT_OK(traced.world().stream(1).Launch(MatMul{&traced, 6}));
  EXPECT_OK(traced.world().region().AllReduce({traced.x(0), traced.x(1)}));
  EXPECT_OK(traced.world().Synchronize());
  EXPECT_THAT(Texts(traced.trace(), 0), ElementsAre("AllReduce 4us 4us 4us [world 0, 16 bytes]",
                                                    "AllReduce 4us 10us 10us [world 1, 16 bytes]"));
  EXPECT_THAT(Texts(traced.trace(), 1),
              ElementsAre("AllReduce 4us 4us 4us [world 0, 16 bytes]", "MatMul 4us 4us 10us",
                          "AllReduce 10us 10us 10us [world 1, 16 bytes]"));
}

// On whichever way it comes to run, an operation takes time, and so does a kernel.
TEST(TraceOfAWorld, BeginReadyAndEndAreThreeMoments) {
  for (const Execution execution : {Execution::kInline, Execution::kSeeded}) {
    for (const bool one_call : {false, true}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(execution), one_call ? " one call" : ""));
      Traced traced(execution, true, std::make_unique<TickingClock>());
      if (one_call) {
        EXPECT_OK(traced.world().region().AllReduce({traced.x(0), traced.x(1)}));
      } else {
        traced.AttachBoth();
        for (const int id : {0, 1}) EXPECT_OK(traced.region(id).AllReduce(traced.x(id)));
      }
      EXPECT_OK(traced.world().Synchronize());
      std::vector<Span> spans;
      for (const Track* track : traced.trace().worlds()[0]->tracks()) {
        for (const Span& span : track->spans()) spans.push_back(span);
      }
      ASSERT_EQ(spans.size(), 2u);
      for (const Span& span : spans) {
        EXPECT_LT(span.begin, span.ready);
        EXPECT_LT(span.ready, span.end);
        EXPECT_EQ(span.ready, spans[0].ready);
        EXPECT_EQ(span.end, spans[0].end);
        EXPECT_EQ(span.region, spans[0].region);
      }
    }
  }
}

TEST(TraceOfAWorld, OverlappedOperationsAreOnTheStreamOfTheRegion) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  EXPECT_OK(traced.region(0).StartAllReduce(traced.x(0)));
  traced.Advance(3);
  EXPECT_OK(traced.region(1).StartAllReduce(traced.x(1)));
  EXPECT_OK(traced.world().Synchronize());
  const std::string comm = "stream of Region \"world\"";
  EXPECT_THAT(Texts(traced.trace(), 0, comm),
              ElementsAre("AllReduce 0 3us 3us [world 0, 16 bytes]"));
  EXPECT_THAT(Texts(traced.trace(), 1, comm),
              ElementsAre("AllReduce 3us 3us 3us [world 0, 16 bytes]"));
  EXPECT_THAT(Texts(traced.trace(), 0), IsEmpty());
  EXPECT_EQ(traced.trace().TotalsOf(0).all_reduce, Us(3));
}

TEST(TraceOfAWorld, BatchesAreOfTheirKindWhereTheyHaveOne) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  for (const int id : {0, 1}) {
    Batch batch = traced.region(id).NewBatch();
    EXPECT_OK(batch.AllGather(traced.shard(id), traced.full(id)));
    EXPECT_OK(batch.AllReduce(traced.x(id)));
    EXPECT_OK(batch.End());
    traced.Advance(1);
  }
  for (const int id : {0, 1}) {
    Batch batch = traced.region(id).NewBatch();
    EXPECT_OK(batch.AllReduce({traced.x(id).data(), DType::kF32, {2}}));
    EXPECT_OK(batch.AllReduce({traced.full(id).data(), DType::kF32, {2, 5}}));
    EXPECT_OK(batch.End());
    traced.Advance(10);
  }
  for (const int id : {0, 1}) {
    EXPECT_OK(traced.region(id).NewBatch().End());
    traced.Advance(100);
  }
  EXPECT_THAT(Texts(traced.trace(), 0),
              ElementsAre("Batch 0 1us 1us [world 0, 40 bytes, 2 steps]",
                          "AllReduce 2us 12us 12us [world 1, 48 bytes, 2 steps]",
                          "Batch 22us 122us 122us [world 2, 0 bytes, 0 steps]"));
  EXPECT_THAT(Parts(traced.trace().TotalsOf(0)), ElementsAre(Us(0), Us(10), Us(0), Us(101)));
}

// The ranks disagree: rank 0's stream has waited, rank 1's comes to its place only afterwards.
TEST(TraceOfAWorld, ADroppedOperationSaysSo) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  EXPECT_OK(traced.region(0).AllReduce(traced.x(0)));
  traced.Advance(9);
  EXPECT_OK(traced.rank(1).stream().Launch(MatMul{&traced, 20}));
  const TensorView other(traced.full(1).data(), DType::kF32, {5});
  EXPECT_THAT(traced.region(1).AllReduce(other), KindIs(ErrorKind::kMismatch));
  EXPECT_THAT(traced.rank(0).stream().Synchronize(), KindIs(ErrorKind::kMismatch));
  static_cast<void>(traced.rank(1).stream().Synchronize());
  EXPECT_THAT(Texts(traced.trace(), 0),
              ElementsAre("AllReduce dropped 0 9us 9us [world 0, 0 bytes]"));
  EXPECT_THAT(
      Texts(traced.trace(), 1),
      ElementsAre("MatMul 9us 9us 29us", "AllReduce dropped 29us 29us 29us [world 0, 0 bytes]"));
  EXPECT_EQ(traced.trace().TotalsOf(0).all_reduce, Us(9));
  // What is refused later leaves nothing.
  EXPECT_THAT(traced.region(0).AllReduce(traced.x(0)), KindIs(ErrorKind::kMismatch));
  EXPECT_EQ(Texts(traced.trace(), 0).size(), 1u);
}

TEST(TraceOfAWorld, ARankThatNeverComesHasNoPart) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  EXPECT_OK(traced.region(0).AllReduce(traced.x(0)));
  traced.Advance(40);
  traced.Detach(1);
  EXPECT_THAT(traced.rank(0).stream().Synchronize(), KindIs(ErrorKind::kAbsentShard));
  EXPECT_THAT(Texts(traced.trace(), 0),
              ElementsAre("AllReduce dropped 0 40us 40us [world 0, 0 bytes]"));
  EXPECT_THAT(Texts(traced.trace(), 1), IsEmpty());
}

TEST(TraceOfAWorld, ARegionOfOneRankLeavesItsCopies) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  ASSERT_OK_AND_ASSIGN(RankRegion alone, traced.rank(0).NewRegion({0}, {.name = "alone"}));
  EXPECT_OK(alone.AllReduce(traced.x(0)));
  EXPECT_OK(alone.AllReduce(traced.x(0), traced.x(1)));
  EXPECT_OK(traced.rank(0).stream().Synchronize());
  EXPECT_THAT(Texts(traced.trace(), 0), ElementsAre("Copy 0 0 0"));
}

TEST(TraceOfAWorld, StreamsThatARankMakesHaveTracks) {
  Traced traced(Execution::kInline);
  traced.AttachBoth();
  ASSERT_OK_AND_ASSIGN(Stream * more, traced.rank(1).NewStream());
  EXPECT_OK(more->Launch(MatMul{&traced, 3}));
  EXPECT_OK(traced.rank(1).stream().Wait(more->Record()));
  EXPECT_OK(traced.rank(1).stream().Launch(traced.Takes(1)));
  EXPECT_OK(traced.rank(1).stream().Synchronize());
  EXPECT_THAT(Texts(traced.trace(), 1, "stream 0"), ElementsAre("MatMul 0 0 3us"));
  EXPECT_THAT(Texts(traced.trace(), 1), ElementsAre("kernel 3us 3us 4us")) << "a wait is no span";
}

TEST(TraceOfAWorld, OutlivesItsWorldsAndHoldsAllOfThem) {
  sync::FakeClock clock;
  auto trace = std::make_shared<Trace>();
  auto backend = host::NewBackend({.execution = Execution::kInline, .clock = &clock}).value();
  EXPECT_THAT(World::Create(backend, {.devices = {7}, .trace = trace}),
              KindIs(ErrorKind::kInvalidArgument));
  for (const char* name : {"", "the third"}) {
    auto world = World::Create(backend, {.trace = trace, .name = name}).value();
    EXPECT_OK(world->stream(0).Launch([&clock] { clock.Advance(Us(1)); }));
  }
  backend.reset();
  const std::vector<const WorldTrace*> worlds = trace->worlds();
  ASSERT_EQ(worlds.size(), 3u);
  EXPECT_THAT(worlds[0]->tracks(), IsEmpty());
  EXPECT_EQ(worlds[1]->name(), "World 2");
  EXPECT_EQ(worlds[2]->name(), "the third");
  EXPECT_THAT(Texts(*worlds[1]->tracks().at(0)), ElementsAre("kernel 0 0 1us"));
  EXPECT_THAT(Texts(*worlds[2]->tracks().at(0)), ElementsAre("kernel 1us 1us 2us"));
  EXPECT_EQ(trace->TotalsOf(0).compute, Us(2));
}

TEST(TraceOfAWorld, WithoutOneNobodyLooksAtTheClock) {
  class CountingClock final : public sync::FakeClock {
   public:
    absl::Duration Now() override {
      ++looks;
      return FakeClock::Now();
    }
    int looks = 0;
  };
  for (const bool traced : {false, true}) {
    CountingClock clock;
    auto trace = traced ? std::make_shared<Trace>() : nullptr;
    auto backend =
        host::NewBackend({.devices = 2, .execution = Execution::kInline, .clock = &clock}).value();
    auto world = World::Create(backend, {.rank_threads = false, .trace = trace}).value();
    Attachment rank = world->Attach(0).value();
    const int before = clock.looks;
    EXPECT_OK(rank->stream().Launch([] {}));
    EXPECT_EQ(clock.looks - before, traced ? 2 : 0);
    { Attachment moved = std::move(rank); }
    float x[2] = {1, 2};
    const int again = clock.looks;
    EXPECT_OK(world->region().AllReduce(
        {TensorView(&x[0], DType::kF32, {1}), TensorView(&x[1], DType::kF32, {1})}));
    EXPECT_EQ(clock.looks - again, traced ? 4 : 0);
  }
}

}  // namespace
}  // namespace mp::test
