// Shows that slices are runs that make up the whole, equal but for one, the larger ones first.
#include "mp/model/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mp::model {
namespace {

using ::testing::ElementsAre;

TEST(Split, TwelveHeadsOverFiveRanks) {
  EXPECT_THAT(SizesOf(12, 5), ElementsAre(3, 3, 2, 2, 2));
  EXPECT_THAT(SizesOf(12, 1), ElementsAre(12));
  EXPECT_THAT(SizesOf(2, 3), ElementsAre(1, 1, 0));
}

TEST(Split, SlicesMakeUpTheWhole) {
  for (int64_t total = 0; total < 40; ++total) {
    for (int ranks = 1; ranks < 14; ++ranks) {
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Slice slice = SliceOf(total, ranks, rank);
        EXPECT_EQ(slice.begin, end);
        EXPECT_EQ(slice.size, total / ranks + (rank < total % ranks ? 1 : 0));
        end += slice.size;
      }
      EXPECT_EQ(end, total);
    }
  }
}

}  // namespace
}  // namespace mp::model
