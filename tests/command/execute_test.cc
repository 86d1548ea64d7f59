// Who receives the result: any root, every rank, the only rank; and any number of ranks on any
// number of threads.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/shards.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::Bytes;
using files::NpyFile;
using files::Values;
using testing::ElementsAre;

using ExecuteTest = ShardTest;

TEST_F(ExecuteTest, EveryRoot) {
  const auto shards = WriteShards({2, 0}, 1, {1, 2, 3});
  for (int root = 0; root < 3; ++root) {
    Succeeds(With({"gather", absl::StrCat("--root=", root), "--out=full.npy", "--force"}, shards));
    ExpectWhole("full.npy");
  }
}

TEST_F(ExecuteTest, EveryRanksResult) {
  const auto shards = WriteShards({3, 0, 2}, 1, {1, 0, 3});
  const Result result =
      Succeeds(With({"gather", "--dim=1", "--all", "--out=results", "--quiet"}, shards));
  EXPECT_EQ(result.out, "");
  for (int rank = 0; rank < 3; ++rank) ExpectWhole(absl::StrCat("results/rank", rank, ".npy"));
  // A folder that exists is used, its files replaced only by force.
  folder().Write("results/other", "kept");
  Fails(1, "results/rank0.npy: exists already; --force replaces it",
        With({"gather", "--dim=1", "--all", "--out=results"}, shards));
  Succeeds(With({"gather", "--dim=1", "--all", "--out=results/", "--force"}, shards));
  ExpectWhole("results/rank2.npy");
  EXPECT_EQ(files::ReadFile(folder() / "results/other"), "kept");
}

TEST_F(ExecuteTest, OneFile) {
  const auto shards = WriteShards({2, 0}, 1, {3});
  Succeeds(With({"gather", "--out=full.npy"}, shards));
  ExpectWhole("full.npy");
  Succeeds(With({"gather", "--all", "--out=results"}, shards));
  ExpectWhole("results/rank0.npy");
}

TEST_F(ExecuteTest, OneFileForTwoRanks) {
  folder().Write("s.npy", NpyFile("<i4", "(2,)", Bytes<int32_t>({5, 6})));
  Succeeds({"gather", "--out=full.npy", "s.npy", "s.npy"});
  EXPECT_THAT(Values<int32_t>(NpyData("full.npy")), ElementsAre(5, 6, 5, 6));
}

TEST_F(ExecuteTest, MoreRanksThanCores) {
  const auto shards = WriteShards({5, 0}, 1, std::vector<int>(64, 1));
  for (const char* threads : {"--threads=1", "--threads=3"}) {
    Succeeds(With({"gather", threads, "--ranks=64", "--out=full.npy", "--force"}, shards));
    ExpectWhole("full.npy");
  }
}

}  // namespace
}  // namespace mp::command
