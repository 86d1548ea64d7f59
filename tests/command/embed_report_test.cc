// The texts are right to the letter for known times, and the nearest rows are found in their order.
#include "mp/command/embed_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mp::command {
namespace {

EmbedReport SomeReport() {
  EmbedReport report{.model = "m", .ranks = 2, .threads = 1};
  report.load = absl::Milliseconds(250);
  report.elapsed = absl::Seconds(2);
  report.mean_of_ranks.compute = absl::Milliseconds(1500);
  report.mean_of_ranks.all_reduce = absl::Milliseconds(250);
  report.mean_of_ranks.gather = absl::Milliseconds(4);
  return report;
}

TEST(FindNearest, NearestFirstAndEarlierOfEquals) {
  const std::vector<float> rows = {0, 1, 1, 0, -1, 0, 1, 0, 0.6f, 0.8f};
  const std::vector<float> query = {1, 0};
  const std::vector<Nearest> all = FindNearest(rows, query, 10);
  ASSERT_EQ(all.size(), 5u);
  const size_t lines[] = {1, 3, 4, 0, 2};
  const float cosines[] = {1, 1, 0.6f, 0, -1};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i].line, lines[i]);
    EXPECT_EQ(all[i].cosine, cosines[i]);
  }
  EXPECT_EQ(FindNearest(rows, query, 2).size(), 2u);
  EXPECT_TRUE(FindNearest({}, query, 2).empty());
}

TEST(EmbedReport, Text) {
  EncodedLines lines;
  lines.ids.resize(1000);
  lines.tokens = 12345;
  EXPECT_EQ(EmbedReportText(SomeReport(), lines),
            "mp embed: 1000 sentences (12345 tokens) in 2.000 s: 500 sentences/s on 2 ranks and 1 "
            "thread; a rank's time: compute 1.500 s (75%), AllReduce 0.250 s (12%), Gather 0.004 s "
            "(0%)\n");
  lines.ids.resize(1);
  lines.empty = 1;
  lines.cut = 2;
  lines.invalid = 3;
  EXPECT_THAT(EmbedReportText({}, lines),
              testing::StartsWith("mp embed: 1 sentence (12345 tokens, 1 empty, 2 cut at the "
                                  "model's limit, 3 not UTF-8) in 0.000 s: 0 sentences/s"));
}

TEST(EmbedReport, Rows) {
  const std::vector<float> rows = {0.5f, -0.25f, 0.125f, 1, 0, 0, 0, -1};
  EXPECT_EQ(RowsText(rows, {"first", "sec\tond"}),
            "1  [+0.5000 -0.2500 +0.1250 ... 4 in all]  first\n"
            "2  [+0.0000 +0.0000 +0.0000 ... 4 in all]  sec\\tond\n");
  EXPECT_EQ(RowsText({}, {}), "");
  EXPECT_EQ(NearestText({{1, 0.5f}, {0, -0.25f}}, {"first", "second"}),
            "0.5000  line 2: second\n-0.2500  line 1: first\n");
}

TEST(EmbedReport, Json) {
  EncodedLines encoded;
  encoded.ids.resize(2);
  encoded.tokens = 7;
  encoded.cut = 1;
  const std::vector<float> rows = {0.5f, -0.25f, 0.125f, 1};
  const std::vector<absl::string_view> lines = {"a\xff", "b"};
  const auto with_rows =
      nlohmann::json::parse(EmbedReportJson(SomeReport(), encoded, lines, "", nullptr, rows));
  EXPECT_EQ(with_rows["model"], "m");
  EXPECT_EQ(with_rows["lines"], 2);
  EXPECT_EQ(with_rows["tokens"], 7);
  EXPECT_EQ(with_rows["cut"], 1);
  EXPECT_EQ(with_rows["load_seconds"], 0.25);
  EXPECT_EQ(with_rows["seconds"], 2);
  EXPECT_EQ(with_rows["sentences_per_second"], 1);
  EXPECT_EQ(with_rows["compute_seconds"], 1.5);
  EXPECT_EQ(with_rows["all_reduce_seconds"], 0.25);
  EXPECT_EQ(with_rows["gather_seconds"], 0.004);
  EXPECT_EQ(with_rows["embeddings"],
            (std::vector<std::vector<float>>{{0.5f, -0.25f}, {0.125f, 1}}));
  const std::vector<Nearest> nearest = {{0, 0.5f}};
  const auto with_nearest =
      nlohmann::json::parse(EmbedReportJson(SomeReport(), encoded, lines, "o.npy", &nearest, rows));
  EXPECT_EQ(with_nearest["out"], "o.npy");
  EXPECT_FALSE(with_nearest.contains("embeddings"));
  EXPECT_EQ(with_nearest["nearest"][0]["line"], 1);
  EXPECT_EQ(with_nearest["nearest"][0]["text"], "a\xEF\xBF\xBD");
}

}  // namespace
}  // namespace mp::command
