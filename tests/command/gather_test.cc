// `mp gather` on .npy files: every element of a result is compared with a closed form that encodes
// where it came from, over dims, uneven and empty shards, dtypes and sizes.

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/command/shards.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::NpyFile;
using files::Values;

using GatherTest = ShardTest;

TEST_F(GatherTest, LastDimensionByDefault) {
  const auto shards = WriteShards({4, 0}, 1, {3, 1, 4, 2});
  Succeeds(With({"gather", "--out=full.npy"}, shards));
  EXPECT_EQ(NpyType("full.npy"), "<i4 (4, 10)");
  ExpectWhole("full.npy");
}

TEST_F(GatherTest, EveryDimension) {
  const std::vector<std::vector<int>> cuts = {{2, 3}, {1, 0, 4}, {0, 0, 5}, {5}, {1, 1, 1, 1, 1}};
  for (const std::vector<int>& sizes : cuts) {
    for (int rank = 1; rank <= 4; ++rank) {
      for (int dim = 0; dim < rank; ++dim) {
        const std::vector<int> shape = {3, 2, 4, 2};
        const auto shards =
            WriteShards({shape.begin(), shape.begin() + rank}, static_cast<size_t>(dim), sizes);
        for (const int written : {dim, dim - rank}) {
          Succeeds(With({"gather", absl::StrCat("--dim=", written), "--out=full.npy", "--force"},
                        shards));
          ExpectWhole("full.npy");
        }
      }
    }
  }
}

TEST_F(GatherTest, NothingAtAll) {
  auto shards = WriteShards({3, 0}, 1, {0, 0});
  Succeeds(With({"gather", "--out=a.npy"}, shards));
  EXPECT_EQ(NpyType("a.npy"), "<i4 (3, 0)");
  shards = WriteShards({0, 3}, 1, {1, 2});
  Succeeds(With({"gather", "--out=b.npy"}, shards));
  EXPECT_EQ(NpyType("b.npy"), "<i4 (0, 3)");
}

TEST_F(GatherTest, EveryDType) {
  for (const std::string descr : {"<f2", "<f4", "<f8", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4",
                                  "<i8", "<u8", "|b1", "<c8", "<c16"}) {
    const auto size = static_cast<size_t>(std::stoi(descr.substr(2)));
    // Bits of all kinds, NaNs among them, are copied.
    std::string a(2 * size, '\xff');
    std::string b(4 * size, '\x01');
    b[0] = '\x7f';
    folder().Write("a.npy", NpyFile(descr, "(2, 1)", a));
    folder().Write("b.npy", NpyFile(descr, "(2, 2)", b));
    Succeeds({"gather", "--out=full.npy", "--force", "a.npy", "b.npy"});
    EXPECT_EQ(NpyType("full.npy"), descr + " (2, 3)");
    EXPECT_EQ(NpyData("full.npy"),
              a.substr(0, size) + b.substr(0, 2 * size) + a.substr(size) + b.substr(2 * size));
  }
}

TEST_F(GatherTest, EightMebibytes) {
  const auto shards = WriteShards({1024, 0}, 1, {1000, 24, 0, 1024});
  Succeeds(With({"gather", "--out=full.npy"}, shards));
  ExpectWhole("full.npy");
}

TEST_F(GatherTest, TheExampleOfTheReadme) {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = absl::StrCat("s", rank, ".npy");
    folder().Write(name, files::ReadFile(absl::StrCat("tests/examples/shards/", name)));
  }
  Succeeds(
      {"gather", "--dim=-1", "--root=0", "--out=full.npy", "s0.npy", "s1.npy", "s2.npy", "s3.npy"});
  EXPECT_EQ(NpyType("full.npy"), "<f4 (4, 10)");
  std::vector<float> values(40);
  std::iota(values.begin(), values.end(), 0.0F);
  EXPECT_EQ(Values<float>(NpyData("full.npy")), values);
}

TEST_F(GatherTest, BothFormsOfAFlagsValue) {
  const auto shards = WriteShards({2, 0}, 1, {1, 2});
  Succeeds(With({"gather", "--dim", "-1", "--root", "1", "--out", "full.npy"}, shards));
  ExpectWhole("full.npy");
  Succeeds(With(With({"gather"}, shards), {"--dim", "1", "--out=last.npy"}));
  ExpectWhole("last.npy");
}

}  // namespace
}  // namespace mp::command
