// What a traced World tells of any program, on any backend that records: each stream's work one
// after the other, in the order in which it was queued; the parts of one operation together; and
// totals that are the sums.  The times are real ones.

#include "mp/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kRanks = 3;

struct TracedWorld {
  std::shared_ptr<Trace> trace;
  std::unique_ptr<World> world;
};

TracedWorld NewTracedWorld(bool keep_spans = true) {
  auto trace = std::make_shared<Trace>(TraceOptions{.keep_spans = keep_spans});
  return {trace, NewWorld(kRanks, {.trace = trace})};
}

// The rank's streams that have run something, by name.
std::map<std::string, std::vector<Span>> SpansOf(const Trace& trace, int rank) {
  std::map<std::string, std::vector<Span>> spans;
  for (const Track* track : trace.worlds().at(0)->tracks()) {
    if (track->rank() != rank || track->spans().empty()) continue;
    EXPECT_TRUE(spans.emplace(track->name(), track->spans()).second) << track->name();
  }
  return spans;
}

std::vector<std::string> NamesOf(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.emplace_back(span.name);
  return names;
}

// What holds for every trace of a program in which nothing was dropped.
void ExpectSound(const Trace& trace) {
  struct Meeting {
    int parts = 0;
    Span first;
    absl::Duration last_begin = -absl::InfiniteDuration();
  };
  std::map<std::pair<const std::string*, uint64_t>, Meeting> meetings;
  for (int rank = 0; rank < kRanks; ++rank) {
    TraceTotals sums;
    for (const auto& [name, spans] : SpansOf(trace, rank)) {
      absl::Duration last = trace.worlds()[0]->start();
      for (const Span& span : spans) {
        ASSERT_LE(last, span.begin) << "rank " << rank << ", " << name;
        ASSERT_LE(span.begin, span.ready);
        ASSERT_LE(span.ready, span.end);
        ASSERT_FALSE(span.dropped);
        last = span.end;
        const absl::Duration length = span.end - span.begin;
        (span.kind == SpanKind::kCompute                                       ? sums.compute
         : span.kind == SpanKind::kAllReduce                                   ? sums.all_reduce
         : span.kind == SpanKind::kGather || span.kind == SpanKind::kAllGather ? sums.gather
                                                                               : sums.other) +=
            length;
        ASSERT_EQ(span.kind == SpanKind::kCompute, span.region == nullptr);
        if (span.region == nullptr) continue;
        Meeting& meeting = meetings[{span.region, span.sequence}];
        if (meeting.parts++ == 0) meeting.first = span;
        ASSERT_EQ(span.kind, meeting.first.kind);
        ASSERT_EQ(span.name, meeting.first.name);
        ASSERT_EQ(span.steps, meeting.first.steps);
        meeting.last_begin = std::max(meeting.last_begin, span.begin);
        ASSERT_LE(meeting.last_begin, meeting.first.end) << "ended before rank " << rank << " came";
        ASSERT_LE(meeting.first.begin, span.end);
      }
    }
    const TraceTotals totals = trace.TotalsOf(rank);
    EXPECT_EQ(totals.compute, sums.compute);
    EXPECT_EQ(totals.all_reduce, sums.all_reduce);
    EXPECT_EQ(totals.gather, sums.gather);
    EXPECT_EQ(totals.other, sums.other);
  }
  for (const auto& [key, meeting] : meetings) {
    EXPECT_EQ(meeting.parts, kRanks) << *key.first << " " << key.second;
  }
}

TEST(Trace, ABackendRecordsOrSaysThatItDoesNot) {
  const auto world = World::Create(NewBackend(1), {.trace = std::make_shared<Trace>()});
  if (Under().records) {
    EXPECT_OK(world);
  } else {
    EXPECT_THAT(world, KindIs(ErrorKind::kUnsupported));
  }
}

TEST(Trace, TellsWhatRanInOrderThroughEveryDoor) {
  SKIP_UNLESS(records);
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto [trace, world] = NewTracedWorld();
    std::vector<std::string> expected;
    std::deque<Call> calls;
    for (int round = 0; round < 20; ++round) {
      for (const CallSpec& spec : OneOfEach()) {
        calls.emplace_back(*world, spec);
        expected.emplace_back("kernel");
        expected.emplace_back(OpKindName(spec.kind));
      }
    }
    const auto post = [&](Rank& rank) -> absl::Status {
      for (const Call& call : calls) {
        MP_RETURN_IF_ERROR(rank.stream().Launch(Under().kernel([] {})));
        MP_RETURN_IF_ERROR(call.Post(rank.region()));
      }
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    ExpectSound(*trace);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto spans = SpansOf(*trace, rank);
      ASSERT_EQ(spans.size(), 1u);
      const std::vector<Span>& compute = spans.at("compute stream");
      EXPECT_EQ(NamesOf(compute), expected);
      for (size_t i = 0; i < calls.size(); ++i) {
        const Span& span = compute[2 * i + 1];
        EXPECT_EQ(*span.region, "world");
        EXPECT_EQ(span.sequence, i);
        EXPECT_EQ(span.bytes, calls[i].input(rank).size_bytes()) << span.name;
      }
    }
  }
}

TEST(Trace, TellsWhatTheDoorForAllRanksPosts) {
  SKIP_UNLESS(records);
  auto [trace, world] = NewTracedWorld();
  std::vector<std::string> expected;
  std::deque<Call> calls;
  for (int round = 0; round < 10; ++round) {
    for (const CallSpec& spec : OneOfEach()) {
      calls.emplace_back(*world, spec);
      expected.emplace_back(OpKindName(spec.kind));
    }
  }
  for (const Call& call : calls) EXPECT_OK(call.Post(world->region()));
  EXPECT_OK(world->Synchronize());
  ExpectSound(*trace);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(NamesOf(SpansOf(*trace, rank).at("compute stream")), expected);
  }
}

TEST(Trace, KeepsTheStreamsOfARankApart) {
  SKIP_UNLESS(records);
  auto [trace, world] = NewTracedWorld();
  std::deque<Call> calls;
  for (int i = 0; i < 20; ++i) {
    calls.emplace_back(*world, CallSpec{.shape = {i < 18 ? 500 : 300'000}});
  }
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(Stream * more, rank.NewStream());
    for (const Call& call : calls) {
      MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
      MP_RETURN_IF_ERROR(rank.stream().Launch(Under().kernel([] {})));
      MP_RETURN_IF_ERROR(more->Wait(rank.stream().Record()));
      MP_RETURN_IF_ERROR(more->Launch(Under().kernel([] {})));
      MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
    }
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
    return more->Synchronize();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  ExpectSound(*trace);
  for (int rank = 0; rank < kRanks; ++rank) {
    auto spans = SpansOf(*trace, rank);
    EXPECT_EQ(spans.size(), 3u);
    std::vector<std::string> compute(20, "kernel");
    EXPECT_EQ(NamesOf(spans["stream 0"]), compute);
    compute.emplace_back("AcquireSlot");
    EXPECT_EQ(NamesOf(spans["compute stream"]), compute);
    EXPECT_EQ(NamesOf(spans["stream of Region \"world\""]),
              std::vector<std::string>(20, "AllReduce"));
  }
}

TEST(Trace, TellsRegionsApartThatHaveOneName) {
  SKIP_UNLESS(records);
  auto [trace, world] = NewTracedWorld();
  Call call(*world, {});
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      MP_ASSIGN_OR_RETURN(RankRegion region, rank.NewRegion({0, 1, 2}, {.name = "twice"}));
      MP_RETURN_IF_ERROR(call.Post(region));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  ExpectSound(*trace);
  const std::vector<Span> spans = SpansOf(*trace, 1).at("compute stream");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(*spans[0].region, "twice");
  EXPECT_EQ(*spans[1].region, "twice");
  EXPECT_NE(spans[0].region, spans[1].region);
}

TEST(Trace, TotalsNeedNoSpans) {
  SKIP_UNLESS(records);
  auto [trace, world] = NewTracedWorld(false);
  for (const CallSpec& spec : OneOfEach()) {
    Call call(*world, spec);
    const TraceTotals before = trace->TotalsOf(0);
    const auto post = [&](Rank& rank) -> absl::Status {
      // What the others wait for is seen in their totals.
      const auto spin = [] {
        sync::Clock& clock = sync::Clock::Steady();
        for (const absl::Duration start = clock.Now(); clock.Now() - start < absl::Milliseconds(1);)
          ;
      };
      if (rank.id() == 2) MP_RETURN_IF_ERROR(rank.stream().Launch(Under().kernel(spin)));
      return call.Post(rank.region());
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    const TraceTotals after = trace->TotalsOf(0);
    const bool reduces = spec.kind == OpKind::kAllReduce;
    EXPECT_EQ(after.all_reduce > before.all_reduce, reduces);
    EXPECT_EQ(after.gather > before.gather, !reduces);
    EXPECT_EQ(after.compute, absl::ZeroDuration());
    EXPECT_EQ(after.other, absl::ZeroDuration());
  }
  EXPECT_GE(trace->TotalsOf(2).compute, absl::Milliseconds(1) * OneOfEach().size());
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(SpansOf(*trace, rank).empty());
}

// Ranks that disagree, each with its own idea of the second operation.
TEST(Trace, SaysWhatWasDropped) {
  SKIP_UNLESS(records);
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto [trace, world] = NewTracedWorld();
    Call good(*world, {.kind = OpKind::kAllGather});
    Call one(*world, {.shape = {3}}), other(*world, {.shape = {5}});
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_RETURN_IF_ERROR(good.Post(rank.region()));
      return (rank.id() == 0 ? one : other).Post(rank.region());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(KindIs(ErrorKind::kMismatch)));
    EXPECT_OK(world->Close());
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<Span> spans = SpansOf(*trace, rank).at("compute stream");
      ASSERT_THAT(NamesOf(spans), ElementsAre("AllGather", "AllReduce"));
      EXPECT_FALSE(spans[0].dropped);
      EXPECT_TRUE(spans[1].dropped);
      EXPECT_LE(spans[0].end, spans[1].begin);
      EXPECT_EQ(spans[1].ready, spans[1].end);
      EXPECT_EQ(spans[1].bytes, 0);
      EXPECT_EQ(trace->TotalsOf(rank).all_reduce, spans[1].end - spans[1].begin);
    }
  }
}

TEST(Trace, IsReadWhileRanksRun) {
  SKIP_UNLESS(records);
  auto [trace, world] = NewTracedWorld();
  Progress done;
  sync::Thread reader = sync::Thread::Start("reads", [&done, trace = trace] {
                          while (done.value() == 0) {
                            for (int rank = 0; rank < kRanks; ++rank) {
                              const TraceTotals before = trace->TotalsOf(rank);
                              static_cast<void>(SpansOf(*trace, rank));
                              EXPECT_LE(before.all_reduce, trace->TotalsOf(rank).all_reduce);
                            }
                          }
                        }).value();
  Call call(*world, {.inputs = Inputs::kInPlace, .contents = Contents::kSmallNumbers});
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 2000; ++i) MP_RETURN_IF_ERROR(call.Post(rank.region()));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  done.Add();
  reader.Join();
  ExpectSound(*trace);
}

TEST(Trace, ALaunchLeavesTheSpansOfWhatItRuns) {
  SKIP_UNLESS(records);
  SKIP_UNLESS(graphs);
  const TracedWorld traced = NewTracedWorld();
  World& world = *traced.world;
  Call call(world, {.shape = {5}}), beside(world, {.kind = OpKind::kAllGather});
  EXPECT_OK(world.Run([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
      MP_ASSIGN_OR_RETURN(Work work, beside.Start(region));
      MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([] {})));
      MP_RETURN_IF_ERROR(call.Post(region));
      return work.Wait(region.stream());
    }));
    MP_RETURN_IF_ERROR(graph.Launch());
    return graph.Launch();
  }));
  for (int rank = 0; rank < kRanks; ++rank) {
    auto spans = SpansOf(*traced.trace, rank);
    EXPECT_THAT(
        NamesOf(spans["compute stream"]),
        ElementsAre("Capture", "Graph", "kernel", "AllReduce", "Graph", "kernel", "AllReduce"));
    EXPECT_THAT(NamesOf(spans["overlapped operations of a graph"]),
                ElementsAre("AllGather", "AllGather"));
    absl::Duration last;
    for (const Span& span : spans["compute stream"]) {
      EXPECT_LE(last, span.begin);
      last = span.end;
    }
    EXPECT_EQ(spans["compute stream"][3].bytes, 20);
  }
}

}  // namespace
}  // namespace mp::test
