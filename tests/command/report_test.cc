// The result that is printed: one line for each output, or one JSON object, or nothing.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/command/checkpoint.h"
#include "tests/command/shards.h"

namespace mp::command {
namespace {

using testing::MatchesRegex;

using ReportTest = ShardTest;

TEST_F(ReportTest, Lines) {
  auto shards = WriteShards({4, 0}, 1, {3, 1, 4, 2});
  EXPECT_THAT(Succeeds(With({"gather", "--out=full.npy"}, shards)).out,
              MatchesRegex("full.npy: i32\\[4, 10\\], 160 bytes, from 4 ranks in [0-9.]+[mu]?s\n"));
  shards = WriteShards({2, 0}, 1, {3});
  EXPECT_THAT(Succeeds(With({"gather", "--out=one.npy"}, shards)).out,
              MatchesRegex("one.npy: i32\\[2, 3\\], 24 bytes, from 1 rank in [0-9.]+[mu]?s\n"));
  shards = WriteShards({2, 0}, 1, {3, 1});
  EXPECT_THAT(
      Succeeds(With({"gather", "--all", "--out=d"}, shards)).out,
      MatchesRegex("d/rank0.npy: i32\\[2, 4\\], 32 bytes, from 2 ranks in [0-9.]+[mu]?s\n"
                   "d/rank1.npy: i32\\[2, 4\\], 32 bytes, from 2 ranks in [0-9.]+[mu]?s\n"));
  EXPECT_EQ(Succeeds(With({"gather", "--quiet", "--out=quiet.npy"}, shards)).out, "");
}

TEST_F(ReportTest, Json) {
  const auto shards = WriteShards({2, 0}, 1, {1, 2});
  const auto json = nlohmann::json::parse(
      Succeeds(With({"gather", "--json", "--out=full.npy"}, shards)).out, nullptr, false);
  EXPECT_EQ(json["command"], "gather");
  EXPECT_EQ(json["backend"], "host");
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["bytes"], 24);
  EXPECT_GT(json["seconds"], 0);
  EXPECT_EQ(json["outputs"], (std::vector<std::string>{"full.npy"}));
  EXPECT_EQ(json["tensors"].dump(), R"([{"bytes":24,"dim":1,"dtype":"i32","shape":[2,3]}])");
}

TEST_F(ReportTest, JsonTellsEveryTensor) {
  folder().Write("a.safetensors", FileOf({{"w", "U8", {1, 2}, "ab"}, {"n", "U8", {}, "c"}}));
  folder().Write("b.safetensors", FileOf({{"w", "U8", {1, 2}, "de"}, {"n", "U8", {}, "c"}}));
  const auto json =
      nlohmann::json::parse(Succeeds({"gather", "--json", "--out=o.safetensors", "--dim=n:same",
                                      "a.safetensors", "b.safetensors"})
                                .out,
                            nullptr, false);
  EXPECT_EQ(json["bytes"], 5);
  EXPECT_EQ(json["tensors"].dump(),
            R"([{"bytes":1,"dtype":"u8","name":"n","same":true,"shape":[]},)"
            R"({"bytes":4,"dim":1,"dtype":"u8","name":"w","shape":[1,4]}])");
}

}  // namespace
}  // namespace mp::command
