// Readings of the cycle counter become times that keep their order, lie between the clock's own at
// either end, and are in proportion in between.

#include "mp/base/cycle_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "mp/base/sync.h"

namespace mp {
namespace {

TEST(CycleClock, TimesLieBetweenTheClocksOwnAndKeepTheirOrder) {
  sync::Clock& steady = sync::Clock::Steady();
  const absl::Duration before = steady.Now();
  const CycleClock clock;
  const absl::Duration made = steady.Now();
  std::vector<uint64_t> cycles;
  std::vector<absl::Duration> earliest, latest;
  for (int i = 0; i < 1000; ++i) {
    earliest.push_back(steady.Now() - made);
    cycles.push_back(sync::Cycles());
    latest.push_back(steady.Now() - before);
  }
  const CycleClock::Reading now = clock.Now();
  EXPECT_LE(latest.back() - (made - before), now.elapsed());
  // The counter is as steady as the clock, but both are read one after the other, and a thread may
  // lose its core in between.
  const absl::Duration slack = (made - before) + absl::Microseconds(50);
  absl::Duration last;
  for (size_t i = 0; i < cycles.size(); ++i) {
    const absl::Duration time = now.Since(cycles[i]);
    EXPECT_GE(time, last);
    EXPECT_GE(time, earliest[i] - slack);
    EXPECT_LE(time, latest[i] + slack);
    EXPECT_LE(time, now.elapsed());
    last = time;
  }
}

TEST(CycleClock, WhatIsNotBetweenTheTwoMomentsIsCut) {
  const uint64_t before = sync::Cycles();
  const CycleClock clock;
  const CycleClock::Reading now = clock.Now();
  EXPECT_EQ(now.Since(before - 1'000'000), absl::ZeroDuration());
  EXPECT_EQ(now.Since(sync::Cycles() + 1'000'000'000), now.elapsed());
}

}  // namespace
}  // namespace mp
