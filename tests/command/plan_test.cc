// `mp gather` on .safetensors: a tensor-parallel checkpoint is merged by the --dim rules, every
// tensor to its closed form, and whatever does not fit together is told in one line.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/command/checkpoint.h"
#include "tests/command/harness.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::Bytes;

class PlanTest : public CommandTest {
 protected:
  auto Gather(const Arguments& flags) {
    Arguments arguments = {"gather", "--out=full.safetensors", "--force"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"a.safetensors", "b.safetensors"});
    Succeeds(arguments);
    return Contents(files::ReadFile(folder() / "full.safetensors"));
  }
  void GatherFails(const std::string& text, const Arguments& flags = {}) {
    Arguments arguments = {"gather", "--out=out.safetensors"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"a.safetensors", "b.safetensors"});
    Fails(1, text, arguments);
  }
  void Write(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
             const std::string& metadata_a = "", const std::string& metadata_b = "") {
    folder().Write("a.safetensors", FileOf(a, metadata_a));
    folder().Write("b.safetensors", FileOf(b, metadata_b));
  }
};

TEST_F(PlanTest, MergesByRules) {
  Write({{"layer.0.o_proj.weight", "BF16", {2, 1}, "AaBb"},
         {"layer.0.q_proj.weight", "BF16", {1, 2}, "CcDd"},
         {"layer.0.norm.weight", "F32", {1}, "same"},
         {"scale", "F8_E4M3", {}, "x"},
         {"mask", "BOOL", {2}, std::string("\1\0", 2)}},
        {{"mask", "BOOL", {1}, "\1"},  // another order
         {"layer.0.o_proj.weight", "BF16", {2, 2}, "EeFfGgHh"},
         {"layer.0.q_proj.weight", "BF16", {2, 2}, "IiJjKkLl"},
         {"layer.0.norm.weight", "F32", {1}, "same"},
         {"scale", "F8_E4M3", {}, "x"}});
  const auto full =
      Gather({"--dim=0", "--dim=*.o_proj.*:1", "--dim=*norm*:same", "--dim=scale:same"});
  ASSERT_EQ(full.size(), 5);
  EXPECT_EQ(full.at("layer.0.o_proj.weight"), Content("BF16[2,3]", "AaEeFfBbGgHh"));
  EXPECT_EQ(full.at("layer.0.q_proj.weight"), Content("BF16[3,2]", "CcDdIiJjKkLl"));
  EXPECT_EQ(full.at("layer.0.norm.weight"), Content("F32[1]", "same"));
  EXPECT_EQ(full.at("scale"), Content("F8_E4M3[]", "x"));
  EXPECT_EQ(full.at("mask").second, std::string("\1\0\1", 3));
}

TEST_F(PlanTest, FirstMatchCounts) {
  Write({{"x", "U8", {1, 1}, "a"}, {"y", "U8", {1, 1}, "b"}},
        {{"x", "U8", {1, 1}, "c"}, {"y", "U8", {1, 1}, "d"}});
  auto full = Gather({"--dim=x:0", "--dim=?:1"});
  EXPECT_EQ(full.at("x").first, "U8[2,1]");
  EXPECT_EQ(full.at("y").first, "U8[1,2]");
  full = Gather({"--dim=?:1", "--dim=x:0"});
  EXPECT_EQ(full.at("x").first, "U8[1,2]");
  full = Gather({});  // -1
  EXPECT_EQ(full.at("x"), Content("U8[1,2]", "ac"));
}

TEST_F(PlanTest, EveryDTypeIsMoved) {
  std::vector<Tensor> a;
  std::vector<Tensor> b;
  for (const auto& [dtype, size] : std::vector<std::pair<std::string, size_t>>{{"BOOL", 1},
                                                                               {"U8", 1},
                                                                               {"I8", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"F8_E4M3", 1},
                                                                               {"I16", 2},
                                                                               {"U16", 2},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"I32", 4},
                                                                               {"U32", 4},
                                                                               {"F32", 4},
                                                                               {"C64", 8},
                                                                               {"F64", 8},
                                                                               {"I64", 8},
                                                                               {"U64", 8}}) {
    a.push_back({dtype, dtype, {1}, std::string(size, '\xff')});
    b.push_back({dtype, dtype, {2}, std::string(2 * size, '\x7f')});
  }
  Write(a, b);
  const auto full = Gather({});
  ASSERT_EQ(full.size(), 16);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(full.at(a[i].name), Content(a[i].dtype + "[3]", a[i].data + b[i].data));
  }
}

TEST_F(PlanTest, EveryRanksResult) {
  Write({{"w", "U8", {1}, "a"}, {"n", "U8", {}, "c"}},
        {{"w", "U8", {1}, "b"}, {"n", "U8", {}, "c"}});
  Succeeds({"gather", "--all", "--out=results", "--dim=n:same", "a.safetensors", "b.safetensors"});
  for (const char* name : {"results/rank0.safetensors", "results/rank1.safetensors"}) {
    const auto contents = Contents(files::ReadFile(folder() / name));
    EXPECT_EQ(contents.at("w"), Content("U8[2]", "ab"));
    EXPECT_EQ(contents.at("n"), Content("U8[]", "c"));
  }
}

TEST_F(PlanTest, KeepsTheMetadataOnWhichAllAgree) {
  Write({}, {}, R"({"format":"pt","rank":"0","only":"a"})", R"({"format":"pt","rank":"1"})");
  const auto full = Gather({});
  ASSERT_EQ(full.size(), 1);
  EXPECT_EQ(full.at("__metadata__").first, R"({"format":"pt"})");
}

TEST_F(PlanTest, NoTensors) {
  Write({}, {});
  EXPECT_TRUE(Gather({}).empty());
}

TEST_F(PlanTest, NamesOfAllKinds) {
  const std::string name = "a\"\\\n\x01/\xc3\xa4";
  Write({{name, "U8", {1}, "a"}}, {{name, "U8", {1}, "b"}});
  EXPECT_EQ(Gather({}).at(name).second, "ab");
  Write({{"a\nb\x1b[2J", "U8", {1}, "a"}}, {{"c", "U8", {1}, "b"}});
  GatherFails(
      R"(rank 1: b.safetensors: has no tensor "a\nb\x1b[2J", which rank 0 (a.safetensors))");
}

TEST_F(PlanTest, ReplicatedTensorsMustAgree) {
  std::vector<float> values(1000, 1.0F);
  const std::string a = Bytes(values);
  values[777] = -0.5F;
  Write({{"norm", "F32", {10, 100}, a}}, {{"norm", "F32", {10, 100}, Bytes(values)}});
  GatherFails(
      "rank 1: b.safetensors: tensor \"norm\": is not the same as on rank 0 (a.safetensors): "
      "element "
      "777 is -0.5 (bits bf000000) and not 1 (bits 3f800000)",
      {"--dim=norm:same"});
  // Equal as numbers is not enough: bits count.
  Write({{"z", "F32", {1}, Bytes<float>({0.0F})}}, {{"z", "F32", {1}, Bytes<float>({-0.0F})}});
  GatherFails("element 0 is -0 (bits 80000000) and not 0 (bits 00000000)", {"--dim=same"});
  // And equal bits are enough: NaN is NaN.
  Write({{"z", "BF16", {1}, "\xff\x7f"}}, {{"z", "BF16", {1}, "\xff\x7f"}});
  EXPECT_EQ(Gather({"--dim=same"}).at("z").second, "\xff\x7f");
  Write({{"z", "U8", {1}, "a"}}, {{"z", "U8", {2}, "aa"}});
  GatherFails("tensor \"z\": u8[2] differs from u8[1] of rank 0 (a.safetensors): --dim=same wants",
              {"--dim=same"});
}

TEST_F(PlanTest, MissingTensors) {
  Write({{"a", "U8", {1}, "x"}, {"b", "U8", {1}, "x"}}, {{"a", "U8", {1}, "x"}});
  GatherFails(R"(rank 1: b.safetensors: has no tensor "b", which rank 0 (a.safetensors) has)");
  Write({{"b", "U8", {1}, "x"}}, {{"a", "U8", {1}, "x"}, {"b", "U8", {1}, "x"}});
  GatherFails(R"(rank 0: a.safetensors: has no tensor "a", which rank 1 (b.safetensors) has)");
  Write({}, {{"a", "U8", {1}, "x"}});
  GatherFails(R"(rank 0: a.safetensors: has no tensor "a", which rank 1 (b.safetensors) has)");
}

TEST_F(PlanTest, TensorsThatDoNotFit) {
  Write({{"w", "U8", {1, 2}, "ab"}}, {{"w", "U8", {2, 2}, "abcd"}});
  GatherFails(
      R"(rank 1: b.safetensors: tensor "w": u8[2, 2] cannot be joined along dim 1 with u8[1, 2] )"
      R"(of rank 0 (a.safetensors): the other dimensions must be equal)");
  Write({{"w", "U8", {1, 2}, "ab"}}, {{"w", "U8", {2}, "ab"}});
  GatherFails("u8[2] cannot be joined along dim 1 with u8[1, 2]");
  Write({{"w", "F16", {1}, "ab"}}, {{"w", "BF16", {1}, "ab"}});
  GatherFails(R"(tensor "w": dtype bf16 differs from f16 of rank 0 (a.safetensors))");
  Write({{"s", "U8", {}, "a"}}, {{"s", "U8", {}, "a"}});
  GatherFails(R"(rank 0: a.safetensors: tensor "s": u8[] has no dimension to be joined along)");
  Write({{"w", "U8", {1}, "a"}}, {{"w", "U8", {1}, "a"}});
  GatherFails(R"(tensor "w": --dim=?:1 is outside -1..0 of u8[1])", {"--dim=?:1"});
  GatherFails("--dim=v*:0 matches none of the 1 tensors", {"--dim=v*:0"});
}

}  // namespace
}  // namespace mp::command
