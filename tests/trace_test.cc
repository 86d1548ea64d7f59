// Shows what a Trace holds, by hand: spans in order over any number of them, their sums, and a
// reader beside the writer.

#include "mp/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "mp/base/sync.h"

namespace mp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Duration Us(int64_t n) { return absl::Microseconds(n); }

std::vector<absl::Duration> Parts(const TraceTotals& totals) {
  return {totals.compute, totals.all_reduce, totals.gather, totals.other};
}

Span SpanAt(int64_t begin, int64_t end, SpanKind kind = SpanKind::kCompute) {
  Span span;
  span.kind = kind;
  span.name = "work";
  span.begin = span.ready = Us(begin);
  span.end = Us(end);
  return span;
}

TEST(Track, KeepsAnyNumberOfSpansInOrder) {
  sync::FakeClock clock;
  for (const int count : {0, 1, 255, 256, 257, 512, 1000}) {
    Track track(clock, true, 3, "a stream");
    for (int i = 0; i < count; ++i) track.Add(SpanAt(i, i + 1));
    const std::vector<Span> spans = track.spans();
    ASSERT_EQ(spans.size(), static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(spans[static_cast<size_t>(i)].begin, Us(i));
    EXPECT_EQ(track.totals().compute, Us(count));
    EXPECT_EQ(track.rank(), 3);
    EXPECT_EQ(track.name(), "a stream");
  }
}

TEST(Track, AddsUpByKind) {
  sync::FakeClock clock;
  for (const bool keep : {true, false}) {
    Track track(clock, keep, 0, "a stream");
    for (int round = 0; round < 3; ++round) {
      track.Add(SpanAt(0, 1, SpanKind::kCompute));
      track.Add(SpanAt(1, 11, SpanKind::kAllReduce));
      track.Add(SpanAt(11, 111, SpanKind::kGather));
      track.Add(SpanAt(111, 1111, SpanKind::kAllGather));
      track.Add(SpanAt(1111, 11111, SpanKind::kAcquireSlot));
      track.Add(SpanAt(11111, 111111, SpanKind::kBatch));
    }
    EXPECT_THAT(Parts(track.totals()), ElementsAre(Us(3), Us(30), Us(3300), Us(330000)));
    EXPECT_EQ(track.spans().size(), keep ? 18u : 0u);
  }
}

TEST(Track, IsReadWhileItIsWritten) {
  constexpr size_t kSpans = 600;
  sync::FakeClock clock;
  for (int round = 0; round < 200; ++round) {
    Track track(clock, true, 0, "a stream");
    sync::Atomic<bool> reads{false};
    sync::Thread writer =
        sync::Thread::Start("writes", [&] {
          while (!reads.load()) sync::Pause();
          for (size_t i = 0; i < kSpans; ++i) {
            track.Add(SpanAt(static_cast<int64_t>(i), static_cast<int64_t>(i) + 2));
          }
        }).value();
    for (size_t seen = 0; seen < kSpans; reads.store(true)) {
      const std::vector<Span> spans = track.spans();
      ASSERT_GE(spans.size(), seen);
      seen = spans.size();
      for (size_t i = 0; i < seen; ++i) ASSERT_EQ(spans[i].end, Us(static_cast<int64_t>(i) + 2));
      EXPECT_GE(track.totals().compute, Us(2 * static_cast<int64_t>(seen)));
    }
  }
}

TEST(Trace, AddsUpOverStreamsAndWorlds) {
  sync::FakeClock clock;
  Trace trace;
  EXPECT_THAT(trace.worlds(), IsEmpty());
  WorldTrace& first = trace.NewWorld("", clock);
  clock.Advance(Us(7));
  WorldTrace& second = trace.NewWorld("the second", clock);
  first.NewTrack(0, "a").Add(SpanAt(0, 1));
  first.NewTrack(1, "b").Add(SpanAt(0, 10));
  first.NewTrack(0, "c").Add(SpanAt(0, 100));
  second.NewTrack(0, "d").Add(SpanAt(0, 1000));
  EXPECT_THAT(trace.worlds(), ElementsAre(&first, &second));
  EXPECT_EQ(first.name(), "World 1");
  EXPECT_EQ(second.name(), "the second");
  EXPECT_EQ(first.start(), Us(0));
  EXPECT_EQ(second.start(), Us(7));
  EXPECT_EQ(trace.NewWorld("", clock).name(), "World 3");
  EXPECT_EQ(first.TotalsOf(0).compute, Us(101));
  EXPECT_EQ(trace.TotalsOf(0).compute, Us(1101));
  EXPECT_EQ(trace.TotalsOf(1).compute, Us(10));
  EXPECT_EQ(trace.TotalsOf(2).compute, Us(0));
}

}  // namespace
}  // namespace mp
