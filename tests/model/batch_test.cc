// Shows that every text is in one batch, whole, longest first, and no batch is too large.
#include "mp/model/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace mp::model {
namespace {

using ::testing::ElementsAre;

TEST(MakeBatches, PutsTextsOneBehindTheOther) {
  const std::vector<std::vector<int32_t>> texts = {{1, 2}, {3, 4, 5}, {6}, {7, 8}};
  const std::vector<TokenBatch> batches = MakeBatches(texts, 5);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[0].ids, ElementsAre(3, 4, 5, 1, 2));
  EXPECT_THAT(batches[0].offsets, ElementsAre(0, 3, 5));
  EXPECT_THAT(batches[0].texts, ElementsAre(1, 0));
  EXPECT_EQ(batches[0].length(0), 3);
  EXPECT_EQ(batches[0].length(1), 2);
  EXPECT_THAT(batches[1].ids, ElementsAre(7, 8, 6));
  EXPECT_THAT(batches[1].texts, ElementsAre(3, 2));
  EXPECT_EQ(batches[1].token_count(), 3);
  EXPECT_EQ(batches[1].text_count(), 2);
}

TEST(MakeBatches, OfNothingIsNone) { EXPECT_TRUE(MakeBatches({}, 5).empty()); }

TEST(MakeBatches, ALongerTextIsABatchOfItsOwn) {
  const std::vector<std::vector<int32_t>> texts = {{1}, {1, 2, 3, 4}, {2}};
  const std::vector<TokenBatch> batches = MakeBatches(texts, 2);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[0].texts, ElementsAre(1));
  EXPECT_THAT(batches[1].texts, ElementsAre(0, 2));
}

TEST(MakeBatches, LosesNothing) {
  std::mt19937_64 random(1);
  std::vector<std::vector<int32_t>> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(std::vector<int32_t>(1 + random() % 40, i));
  }
  std::set<size_t> seen;
  int64_t last = 40;
  for (const TokenBatch& batch : MakeBatches(texts, 64)) {
    EXPECT_LE(batch.token_count(), 64);
    for (int64_t i = 0; i < batch.text_count(); ++i) {
      const size_t text = batch.texts[static_cast<size_t>(i)];
      EXPECT_TRUE(seen.insert(text).second);
      EXPECT_EQ(batch.length(i), static_cast<int64_t>(texts[text].size()));
      EXPECT_LE(batch.length(i), last);
      last = batch.length(i);
      const auto begin = batch.ids.begin() + batch.offsets[static_cast<size_t>(i)];
      EXPECT_EQ(std::vector<int32_t>(begin, begin + last), texts[text]);
    }
  }
  EXPECT_EQ(seen.size(), texts.size());
}

}  // namespace
}  // namespace mp::model
