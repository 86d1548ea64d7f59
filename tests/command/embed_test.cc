// `mp embed` with a small model: its rows are those of plain loops in double precision, whatever
// the ranks; odd lines are counted and never fatal; whatever is wrong with the model or the flags
// is one line, and no file is left.

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/command/harness.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"

namespace mp::command {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

// The vocabulary alternates letters and their continuations: "ab c" is a ##b c.
constexpr char kLines[] = "ab c\nd\n\nab ab ab ab ab ab ab ab ab ab\n\xff x\r\ncd e";
const std::vector<std::vector<int32_t>> kIds = {
    {2, 5, 8, 9, 3}, {2, 11, 3},
    {2, 3},          {2, 5, 8, 5, 8, 5, 8, 5, 8, 5, 8, 5, 8, 5, 8, 5, 3},  // cut at 17
    {2, 51, 3},      {2, 9, 12, 13, 3},
};

class EmbedTest : public CommandTest {
 protected:
  void SetUp() override {
    model::EncoderConfig config = model::TinyConfig();
    config.vocab = 60;  // beyond the 26 letters and their continuations
    model_ = model::TinyModel::Make(config, 1);
    model_.Write(folder() / "model");
    folder().Write("lines.txt", kLines);
  }

  Arguments With(const Arguments& more) const {
    Arguments arguments = {"embed", "--model=model"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void ExpectRow(const std::vector<float>& rows, size_t row, const std::vector<int32_t>& ids) {
    const std::vector<double> wanted = model_.Embed(ids);
    ASSERT_GE(rows.size(), (row + 1) * wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(rows[row * wanted.size() + i], wanted[i], 2e-6) << "row " << row;
    }
  }

  model::TinyModel model_;
};

TEST_F(EmbedTest, RowsAreTheReferences) {
  for (const char* ranks : {"--ranks=1", "--ranks=2", "--ranks=5"}) {
    SCOPED_TRACE(ranks);
    const Result result =
        Run(With({ranks, "--threads=2", "--out=rows.npy", "--force", "lines.txt"}));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                MatchesRegex("mp embed: 6 sentences \\(35 tokens, 1 empty, 1 cut at the model's "
                             "limit, 1 not UTF-8\\) in [0-9.]+ s: [0-9]+ sentences/s on . ranks? "
                             "and 2 threads; a rank's time: compute [0-9.]+ s \\([0-9]+%\\), "
                             "AllReduce [0-9.]+ s \\([0-9]+%\\), Gather [0-9.]+ s "
                             "\\([0-9]+%\\)\n"));
    EXPECT_EQ(NpyType("rows.npy"), "<f4 (6, 35)");
    const auto rows = files::Values<float>(NpyData("rows.npy"));
    for (size_t i = 0; i < kIds.size(); ++i) ExpectRow(rows, i, kIds[i]);
  }
}

TEST_F(EmbedTest, FromStdin) {
  for (const Arguments& file : {Arguments{}, Arguments{"-"}}) {
    Arguments arguments = With({"--out=rows.npy", "--force", "--quiet"});
    arguments.insert(arguments.end(), file.begin(), file.end());
    Succeeds(arguments, {.in = folder() / "lines.txt"});
    EXPECT_EQ(NpyType("rows.npy"), "<f4 (6, 35)");
    ExpectRow(files::Values<float>(NpyData("rows.npy")), 1, kIds[1]);
  }
}

TEST_F(EmbedTest, AFormToRead) {
  const Result result = Succeeds(With({"--quiet", "lines.txt"}));
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_THAT(lines[0], MatchesRegex("1  \\[([-+][0-9]\\.[0-9]+ ){3}\\.\\.\\. 35 in all\\]  ab c"));
  EXPECT_THAT(lines[2], MatchesRegex("3  .* 35 in all\\]  "));
  EXPECT_THAT(lines[4], MatchesRegex("5  .* 35 in all\\]  \xEF\xBF\xBD x"));
  const std::vector<double> wanted = model_.Embed(kIds[5]);
  EXPECT_THAT(lines[5], HasSubstr(absl::StrCat("6  [", wanted[0] < 0 ? "-" : "+", "0.")));
}

TEST_F(EmbedTest, TheNearestLines) {
  const Result all = Succeeds(With({"--quiet", "--query=d", "lines.txt"}));
  EXPECT_THAT(all.out, StartsWith("1.0000  line 2: d\n"));
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 5);
  const Result two = Succeeds(With({"--quiet", "--query=d", "--top=2", "lines.txt"}));
  EXPECT_EQ(std::count(two.out.begin(), two.out.end(), '\n'), 2);
  EXPECT_EQ(two.out, all.out.substr(0, two.out.size()));
  const Result more = Succeeds(With({"--quiet", "--query=d", "--top=99", "lines.txt"}));
  EXPECT_EQ(std::count(more.out.begin(), more.out.end(), '\n'), 6);
  // Every cosine, and their order.
  const std::vector<double> query = model_.Embed(kIds[1]);
  double last = 2;
  for (const absl::string_view line : absl::StrSplit(more.out, '\n', absl::SkipEmpty())) {
    const double cosine = std::stod(std::string(line));
    const auto number = static_cast<size_t>(line[line.find("line ") + 5] - '1');
    const std::vector<double> row = model_.Embed(kIds[number]);
    double wanted = 0;
    for (size_t i = 0; i < row.size(); ++i) wanted += row[i] * query[i];
    EXPECT_NEAR(cosine, wanted, 1e-4);
    EXPECT_LE(cosine, last);
    last = cosine;
  }
  Succeeds(With({"--quiet", "--query=d", "--out=rows.npy", "lines.txt"}));
  EXPECT_EQ(NpyType("rows.npy"), "<f4 (6, 35)");
}

TEST_F(EmbedTest, Json) {
  const auto report = json::parse(Succeeds(With({"--json", "--ranks=2", "lines.txt"})).out);
  EXPECT_EQ(report["command"], "embed");
  EXPECT_EQ(report["ranks"], 2);
  EXPECT_EQ(report["lines"], 6);
  EXPECT_EQ(report["empty"], 1);
  EXPECT_EQ(report["cut"], 1);
  EXPECT_EQ(report["invalid"], 1);
  EXPECT_EQ(report["tokens"], 35);
  EXPECT_GT(report["seconds"], 0);
  EXPECT_GT(report["compute_seconds"], 0);
  ASSERT_EQ(report["embeddings"].size(), 6u);
  ExpectRow(report["embeddings"][5], 0, kIds[5]);
  const auto nearest = json::parse(
      Succeeds(With({"--json", "--query=ab c", "--top=1", "lines.txt"})).out)["nearest"];
  ASSERT_EQ(nearest.size(), 1u);
  EXPECT_EQ(nearest[0]["line"], 1);
  EXPECT_EQ(nearest[0]["text"], "ab c");
  EXPECT_NEAR(nearest[0]["cosine"], 1, 1e-6);
  const auto written = json::parse(Succeeds(With({"--json", "--out=o.npy", "lines.txt"})).out);
  EXPECT_EQ(written["out"], "o.npy");
  EXPECT_FALSE(written.contains("embeddings"));
}

TEST_F(EmbedTest, NoLines) {
  folder().Write("none.txt", "");
  EXPECT_EQ(Succeeds(With({"--quiet", "none.txt"})).out, "");
  EXPECT_EQ(Succeeds(With({"--quiet", "--query=a", "none.txt"})).out, "");
  Succeeds(With({"--quiet", "--out=rows.npy", "none.txt"}));
  EXPECT_EQ(NpyType("rows.npy"), "<f4 (0, 35)");
}

TEST_F(EmbedTest, AHugeLine) {
  folder().Write("huge.txt", absl::StrCat("d\n", std::string(8 << 20, 'x'), "\nd ",
                                          std::string(4 << 20, ' '), "e\n"));
  Succeeds(With({"--quiet", "--out=rows.npy", "huge.txt"}));
  const auto rows = files::Values<float>(NpyData("rows.npy"));
  ExpectRow(rows, 0, {2, 11, 3});
  ExpectRow(rows, 1, {2, 1, 3});
  ExpectRow(rows, 2, {2, 11, 13, 3});
}

TEST_F(EmbedTest, ManyLinesInSmallBatches) {
  std::string lines;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&lines, std::string(1 + i % 7, 'a'), " b\n");
  folder().Write("many.txt", lines);
  const Result shown =
      Run(With({"--out=small.npy", "--batch=1", "--ranks=3", "many.txt"}), {.terminal = true});
  EXPECT_THAT(shown.err, HasSubstr("\rmp embed [...................."));
  EXPECT_THAT(shown.err, HasSubstr("% of 500 lines\r\x1b[Kmp embed: 500 sentences"));
  Run(With({"--out=large.npy", "--batch=100000", "many.txt"}));
  const auto small = files::Values<float>(NpyData("small.npy"));
  const auto large = files::Values<float>(NpyData("large.npy"));
  ASSERT_EQ(small.size(), 500u * 35);
  for (size_t i = 0; i < small.size(); ++i) ASSERT_NEAR(small[i], large[i], 1e-6);
}

TEST_F(EmbedTest, TheTraceShowsEveryRanksWork) {
  Succeeds(With({"--quiet", "--ranks=3", "--out=rows.npy", "--trace=trace.json", "lines.txt"}));
  const auto trace = json::parse(files::ReadFile(folder() / "trace.json"));
  const json& events = trace.is_array() ? trace : trace["traceEvents"];
  std::map<int64_t, std::string> threads;
  std::map<std::string, std::map<std::string, int>> counts;  // by thread and name
  for (const json& event : events) {
    if (event["ph"] == "M" && event["name"] == "thread_name") {
      threads[event["tid"]] = event["args"]["name"];
    }
  }
  for (const json& event : events) {
    if (event["ph"] == "X") ++counts[threads[event["tid"]]][event["name"]];
  }
  EXPECT_EQ(counts.size(), 3u);
  for (const char* rank :
       {"rank 0: compute stream", "rank 1: compute stream", "rank 2: compute stream"}) {
    SCOPED_TRACE(rank);
    std::map<std::string, int>& count = counts[rank];
    EXPECT_EQ(count["Embed"], 1);
    EXPECT_EQ(count["AllGather"], 1);
    EXPECT_EQ(count["Query, key, value"], 2);
    EXPECT_EQ(count["Attention"], 2);
    EXPECT_EQ(count["Up"], 2);
    EXPECT_EQ(count["AllReduce"], 4);
    EXPECT_EQ(count["Pool"], 1);
    EXPECT_EQ(count["Gather"], 1);
  }
}

TEST_F(EmbedTest, WrongUsage) {
  Fails(2, "--ranks=6: 6 ranks for 5 attention heads", With({"--ranks=6", "lines.txt"}));
  Fails(2, "--ranks: Value 0 not in range", With({"--ranks=0", "lines.txt"}));
  Fails(2, "--threads: Value 0 not in range", With({"--threads=0", "lines.txt"}));
  Fails(2, "--batch: Value 0 not in range", With({"--batch=0", "lines.txt"}));
  Fails(2, "--top: Value 0 not in range", With({"--top=0", "lines.txt"}));
  Fails(2, "--out=rows.bin: the name must end in .npy", With({"--out=rows.bin", "lines.txt"}));
  Fails(2, "--json and --quiet exclude", With({"--json", "--quiet", "lines.txt"}));
  Fails(2, "--out=a.npy and --trace=./a.npy are one file",
        With({"--out=a.npy", "--trace=./a.npy", "lines.txt"}));
  Fails(2, "lines.npy would replace the input lines.npy",
        With({"--out=lines.npy", "--force", "lines.npy"}));
  Fails(2, "would replace the input", With({"--trace=model/../lines.txt", "--force", "lines.txt"}));
  Fails(2, "--out is given, and empty", With({"--out", "", "lines.txt"}));
  Fails(2, "--query is given, and empty", With({"--query", "", "lines.txt"}));
  Fails(2, "--trace is given, and empty", With({"--trace", "", "lines.txt"}));
  Fails(2, "--model is given, and empty", {"embed", "--model", "", "lines.txt"});
  Fails(2, "FILE is given, and empty", With({""}));
  Fails(2, "--top is for the lines nearest to --query", With({"--top=3", "lines.txt"}));
  Fails(2, "not expected: more.txt", With({"lines.txt", "more.txt"}));
  Fails(1, "--backend=cuda: the kernels of mp embed run on the host only for now; --backend=host",
        With({"--backend=cuda", "lines.txt"}));
}

TEST_F(EmbedTest, FilesThatCannotBe) {
  Fails(1, "nowhere/config.json: ", {"embed", "--model=nowhere", "lines.txt"});
  Fails(1, "nowhere.txt: cannot be opened: No such file", With({"--out=o.npy", "nowhere.txt"}));
  Fails(1, "model: cannot be read: Is a directory", With({"model"}));
  folder().Write("there.npy", "mine");
  Fails(1, "there.npy: exists", With({"--out=there.npy", "lines.txt"}));
  Fails(1, "there.npy: exists", With({"--trace=there.npy", "lines.txt"}));
  Fails(1, "absent/o.npy", With({"--out=absent/o.npy", "lines.txt"}));
  Fails(1, "absent/o.npy", With({"--out=absent/o.npy", "--trace=nowhere/o.npy", "lines.txt"}));
  Fails(1, "absent/t.json", With({"--out=o.npy", "--trace=absent/t.json", "lines.txt"}));
  Fails(1, "cannot be written to stdout", With({"lines.txt"}), {.out = "/dev/full"});
}

TEST_F(EmbedTest, DamagedWeights) {
  model_.weights["encoder.layer.0.output.dense.bias"].values[3] = NAN;
  model_.Write(folder() / "model");
  Fails(1, "the embedding of text 3 has the length ", With({"--out=o.npy", "lines.txt"}));
}

TEST_F(EmbedTest, LyingModels) {
  const std::string weights = model_.Safetensors();
  const auto lies = [&](const std::string& file, const std::string& text) {
    model::WriteFile(folder() / "model/model.safetensors", file);
    Fails(1, text, With({"--out=o.npy", "--trace=t.json", "lines.txt"}));
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    EXPECT_EQ(from.size(), to.size());
    EXPECT_THAT(weights, HasSubstr(from));
    return absl::StrReplaceAll(weights, {{from, to}});
  };
  lies(weights.substr(0, 4), "model/model.safetensors");
  lies(weights.substr(0, 1000), "model/model.safetensors");
  lies(weights.substr(0, weights.size() - 4), "model/model.safetensors");
  lies(std::string(8, '\xff') + weights.substr(8), "model/model.safetensors");
  const std::string norm = "\"embeddings.LayerNorm.bias\":{\"dtype\":\"F32\",\"shape\":[35],";
  lies(replaced(norm + "\"data_offsets\":[0,140]", norm + "\"data_offsets\":[4,144]"),
       "embeddings.LayerNorm");  // overlaps the next
  lies(replaced(norm + "\"data_offsets\":[0,140]", norm + "\"data_offsets\":[0,999]"),
       "embeddings.LayerNorm");
  lies(
      absl::StrReplaceAll(weights, {{"\"dtype\":\"F32\",\"shape\":[35],\"data_offsets\":[0,140]",
                                     "\"dtype\":\"I32\",\"shape\":[35],\"data_offsets\":[0,140]"}}),
      "is i32; weights are f32, f16 or bf16");
  lies(replaced("[35,23]", "[23,35]"), "is [23, 35], and config.json makes it [35, 23]");
  model::WriteFile(folder() / "model/model.safetensors", weights);
  model::WriteFile(folder() / "model/config.json",
                   absl::StrReplaceAll(model_.ConfigJson(),
                                       {{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"}}));
  Fails(1, "encoder.layer.2.attention.self.query.weight\" is missing",
        With({"--out=o.npy", "lines.txt"}));
}

}  // namespace
}  // namespace mp::command
