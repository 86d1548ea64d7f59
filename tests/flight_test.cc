// The rings by themselves: what was posted last comes out, in order and with its own times,
// whatever was overwritten; the outline of every kind of operation in closed form; and that readers
// who come at any moment never see a time of another operation.

#include "mp/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"

namespace mp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Descriptor Reduction(DType dtype, const Shape& shape) {
  Descriptor step;
  step.dtype = dtype;
  step.shape = shape;
  return step;
}

Descriptor Joining(OpKind kind, DType dtype, const Shape& shape, int dim) {
  Descriptor step = Reduction(dtype, shape.With(dim, 0));
  step.kind = kind;
  step.dim = dim;
  return step;
}

Part Of(int64_t extent) {
  Part part;
  part.input_extent = extent;
  return part;
}

TEST(Flight, AnOutlineTellsKindTypeStepsAndBytes) {
  FlightRing ring;
  RegionLog region("tensor");
  const CycleClock clock;
  const std::vector<std::vector<Descriptor>> lists = {
      {Reduction(DType::kF16, {3, 5})},
      {Joining(OpKind::kGather, DType::kF32, {3, 7, 5}, 1)},
      {Joining(OpKind::kAllGather, DType::kI8, {4, 9}, 0)},
      {Reduction(DType::kF32, {2}), Reduction(DType::kF64, {3})},
      {Reduction(DType::kF32, {2}), Joining(OpKind::kGather, DType::kF32, {2, 2}, 1)},
      {},
  };
  const std::vector<std::vector<Part>> parts = {{Of(0)},        {Of(2)},        {Of(3)},
                                                {Of(0), Of(0)}, {Of(0), Of(6)}, {}};
  for (size_t i = 0; i < lists.size(); ++i) {
    ring.Add(region, 100 + i, lists[i], parts[i], i % 2 == 1, sync::Cycles());
  }
  const std::vector<RecentOperation> recent = ring.Recent(4, clock.Now());
  ASSERT_EQ(recent.size(), lists.size());
  const char* const names[] = {"AllReduce", "Gather", "AllGather", "AllReduce", "Batch", "Batch"};
  const int64_t bytes[] = {30, 3 * 2 * 5 * 4, 3 * 9, 8 + 24, 8 + 2 * 6 * 4, 0};
  for (size_t i = 0; i < recent.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(recent[i].rank, 4);
    EXPECT_EQ(recent[i].region, "tensor");
    EXPECT_EQ(recent[i].sequence, 100 + i);
    EXPECT_EQ(recent[i].name, names[i]);
    EXPECT_EQ(recent[i].bytes, bytes[i]);
    EXPECT_EQ(recent[i].steps, static_cast<int>(lists[i].size()));
    EXPECT_EQ(recent[i].overlaps, i % 2 == 1);
    EXPECT_EQ(recent[i].agreed, absl::InfiniteDuration());
    EXPECT_EQ(recent[i].completed, absl::InfiniteDuration());
    if (i > 0) {
      EXPECT_GE(recent[i].posted, recent[i - 1].posted);
    }
  }
}

TEST(Flight, TheLastPostsComeOutWithTheirOwnTimes) {
  FlightRing ring;
  RegionLog one("one"), other("other");
  const CycleClock clock;
  const Descriptor step = Reduction(DType::kF32, {1});
  const Part part;
  const auto post = [&](RegionLog& region, uint64_t sequence) {
    ring.Add(region, sequence, {&step, 1}, {&part, 1}, false, sync::Cycles());
  };
  EXPECT_TRUE(ring.Recent(0, clock.Now()).empty());
  // 200 of the one, all done; every third time one of the other, which is agreed on every second
  // time.
  uint64_t others = 0;
  std::vector<std::pair<std::string, uint64_t>> posted;
  for (uint64_t i = 0; i < 200; ++i) {
    post(one, i);
    posted.emplace_back("one", i);
    one.Agreed(i, sync::Cycles());
    one.Issued(i, sync::Cycles());
    one.Completed(i, sync::Cycles());
    if (i % 3 != 0) continue;
    post(other, others);
    posted.emplace_back("other", others);
    if (others % 2 == 0) other.Agreed(others, sync::Cycles());
    ++others;
  }
  const std::vector<RecentOperation> recent = ring.Recent(0, clock.Now());
  ASSERT_EQ(recent.size(), 64u);
  const absl::Duration never = absl::InfiniteDuration();
  for (size_t i = 0; i < recent.size(); ++i) {
    const RecentOperation& operation = recent[i];
    EXPECT_EQ(std::pair(operation.region, operation.sequence), posted[posted.size() - 64 + i]);
    if (operation.region == "one") {
      EXPECT_LE(operation.posted, operation.agreed);
      EXPECT_LE(operation.agreed, operation.issued);
      EXPECT_LE(operation.issued, operation.completed);
      EXPECT_LT(operation.completed, never);
      if (i + 2 < recent.size()) {
        EXPECT_LE(operation.completed, recent[i + 2].posted);
      }
    } else {
      EXPECT_EQ(operation.agreed == never, operation.sequence % 2 == 1);
      EXPECT_EQ(operation.issued, never);
    }
  }
  EXPECT_EQ(ring.Recent(0, clock.Now(), 3).size(), 3u);
  EXPECT_EQ(ring.Recent(0, clock.Now(), 3)[2].sequence, recent.back().sequence);
  EXPECT_TRUE(ring.Mentions(one));
  EXPECT_FALSE(ring.Mentions(RegionLog("one")));
}

TEST(Flight, WhatIsForgottenIsNotKnown) {
  RegionLog region("tensor");
  for (uint64_t i = 0; i < 100; ++i) {
    region.Agreed(i, 1000 + i);
    region.Completed(i, 2000 + i);
  }
  EXPECT_EQ(region.TimesOf(35).agreed, 0u);
  EXPECT_EQ(region.TimesOf(35).completed, 0u);
  EXPECT_EQ(region.TimesOf(36).agreed, 1036u);
  EXPECT_EQ(region.TimesOf(99).completed, 2099u);
  EXPECT_EQ(region.TimesOf(99).issued, 0u);
  EXPECT_EQ(region.TimesOf(100).agreed, 0u);
  EXPECT_FALSE(region.TimesOf(100).dropped);
  region.Failed(99, {}, 1);
  EXPECT_FALSE(region.TimesOf(98).dropped);
  EXPECT_TRUE(region.TimesOf(99).dropped);
}

TEST(Flight, ReadersAtAnyMomentSeeAnOperationsOwnTimes) {
  RegionLog region("tensor");
  constexpr uint64_t kEnough = 20'000;
  sync::Atomic<uint64_t> done{0}, found{0};
  std::vector<sync::Thread> threads;
  threads.push_back(sync::Thread::Start("writer", [&] {
                      for (uint64_t i = 0; found.load(sync::kRelaxed) < kEnough; ++i) {
                        region.Completed(i, 7 + i);
                        done.store(i + 1, sync::kRelease);
                        if (i % 16 == 0) sync::Yield();
                      }
                    }).value());
  while (found.load(sync::kRelaxed) < kEnough) {
    const uint64_t end = done.load(sync::kAcquire);
    for (uint64_t i = end < 40 ? 0 : end - 40; i < end; ++i) {
      // A slot may be written anew between the look at its number and the look at its time: then
      // the time is a later one, which has been as well.
      const uint64_t time = region.TimesOf(i).completed;
      if (time == 0) continue;
      EXPECT_EQ(time % 64, (7 + i) % 64);
      EXPECT_GE(time, 7 + i);
      found.fetch_add(1, sync::kRelaxed);
    }
  }
}

TEST(Flight, ALineSaysWhatItWasAndHowFarItCame) {
  RecentOperation operation;
  operation.name = "Gather";
  operation.region = "tensor";
  operation.sequence = 41;
  operation.posted = absl::Milliseconds(5);
  operation.agreed = operation.issued = operation.completed = absl::InfiniteDuration();
  const absl::Duration now = absl::Milliseconds(12);
  EXPECT_EQ(ToString(operation, now),
            "Gather 41 of Region \"tensor\", posted 7ms ago, not agreed on");
  operation.agreed = absl::Milliseconds(6);
  EXPECT_THAT(ToString(operation, now), HasSubstr(", agreed on"));
  operation.issued = absl::Milliseconds(6);
  EXPECT_THAT(ToString(operation, now), HasSubstr(", issued"));
  operation.completed = absl::Milliseconds(7);
  EXPECT_THAT(ToString(operation, now), HasSubstr(", done"));
  operation.dropped = true;
  EXPECT_THAT(ToString(operation, now), HasSubstr(", dropped"));
  EXPECT_THAT(ToString(operation, now), Not(HasSubstr("done")));
}

}  // namespace
}  // namespace mp
