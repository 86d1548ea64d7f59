// Shows which core a thread is sent to, and that it may go anywhere afterwards.
#include "mp/base/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mp/base/sync.h"

namespace mp {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;

TEST(QuieterCoreTest, StaysWhereNobodyElseIs) {
  EXPECT_EQ(QuieterCore(1, {0, 2, 3}, {0, 1, 2, 3}), std::nullopt);
  EXPECT_EQ(QuieterCore(0, {}, {0, 1}), std::nullopt);
}

TEST(QuieterCoreTest, LeavesASharedCoreForAFreeOne) {
  EXPECT_THAT(QuieterCore(1, {1, 0, 3}, {0, 1, 2, 3}), Optional(2u));
  EXPECT_THAT(QuieterCore(0, {0}, {0, 1}), Optional(1u));
}

TEST(QuieterCoreTest, GoesNowhereElseThanAllowed) {
  EXPECT_EQ(QuieterCore(1, {1}, {1}), std::nullopt);
  EXPECT_EQ(QuieterCore(1, {1, 3}, {1, 3}), std::nullopt);
  EXPECT_THAT(QuieterCore(1, {1}, {1, 70}), Optional(70u));
  EXPECT_EQ(QuieterCore(1, {1}, {}), std::nullopt);
}

TEST(QuieterCoreTest, WithMoreThreadsThanCoresNobodyMovesForNothing) {
  // Two and two: to move would only change which core has three.
  EXPECT_EQ(QuieterCore(0, {0, 1, 1}, {0, 1}), std::nullopt);
  EXPECT_EQ(QuieterCore(0, {0, 1}, {0, 1}), std::nullopt);
  // Three here and one there.
  EXPECT_THAT(QuieterCore(0, {0, 0, 1}, {0, 1}), Optional(1u));
}

TEST(MoveToCoreTest, TheThreadMayStillGoAnywhere) {
  const std::vector<uint32_t> allowed = AllowedCores();
  ASSERT_THAT(allowed, SizeIs(static_cast<size_t>(sync::CoreCount())));
  for (const uint32_t core : allowed) {
    MoveToCore(core);
    EXPECT_EQ(AllowedCores(), allowed);
    EXPECT_THAT(allowed, Contains(sync::ThisCore()));
  }
  uint32_t forbidden = 0;
  while (std::find(allowed.begin(), allowed.end(), forbidden) != allowed.end()) ++forbidden;
  MoveToCore(forbidden);
  EXPECT_EQ(AllowedCores(), allowed);
  EXPECT_THAT(allowed, Not(Contains(forbidden)));
}

}  // namespace
}  // namespace mp
