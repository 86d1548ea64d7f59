// `mp reduce`: every element of a result is compared with a closed form, for every operation and
// dtype, and no input is changed by it.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/harness.h"

namespace mp::command {
namespace {

using files::Bytes;
using files::NpyFile;
using files::SafetensorsFile;
using files::Values;
using testing::ElementsAre;
using testing::MatchesRegex;

class ReduceTest : public CommandTest {
 protected:
  void SetUp() override {
    folder().Write("p0.npy", NpyFile("<f4", "(2, 2)", Bytes<float>({1, 2, 3, -4})));
    folder().Write("p1.npy", NpyFile("<f4", "(2, 2)", Bytes<float>({5, -6, 7, 8})));
    folder().Write("p2.npy", NpyFile("<f4", "(2, 2)", Bytes<float>({9, 10, -11, 0.5F})));
  }

  std::vector<float> Reduce(const Arguments& flags) {
    Arguments arguments = {"reduce", "--out=out.npy", "--force", "p0.npy", "p1.npy", "p2.npy"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    Succeeds(arguments);
    EXPECT_EQ(NpyType("out.npy"), "<f4 (2, 2)");
    return Values<float>(NpyData("out.npy"));
  }
};

TEST_F(ReduceTest, EveryOperation) {
  const Result result = Succeeds({"reduce", "--out=sum.npy", "p0.npy", "p1.npy"});
  EXPECT_THAT(result.out,
              MatchesRegex("sum.npy: f32\\[2, 2\\], 16 bytes, from 2 ranks in [0-9.]+[mu]?s\n"));
  EXPECT_THAT(Values<float>(NpyData("sum.npy")), ElementsAre(6, -4, 10, 4));
  EXPECT_THAT(Reduce({}), ElementsAre(15, 6, -1, 4.5));
  EXPECT_THAT(Reduce({"--op=sum"}), ElementsAre(15, 6, -1, 4.5));
  EXPECT_THAT(Reduce({"--op=prod"}), ElementsAre(45, -120, -231, -16));
  EXPECT_THAT(Reduce({"--op=min"}), ElementsAre(1, -6, -11, -4));
  EXPECT_THAT(Reduce({"--op=max"}), ElementsAre(9, 10, 7, 8));
  EXPECT_THAT(Reduce({"--op=avg"}), ElementsAre(5, 2, -1.0F / 3, 1.5));
  EXPECT_THAT(Reduce({"--scale=-0.5"}), ElementsAre(-7.5, -3, 0.5, -2.25));
  EXPECT_THAT(Reduce({"--op=max", "--scale", "-2"}), ElementsAre(-2, 12, 22, 8));
}

TEST_F(ReduceTest, EveryRanksResult) {
  Succeeds({"reduce", "--all", "--out=results", "p0.npy", "p1.npy", "p2.npy"});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(Values<float>(NpyData(absl::StrCat("results/rank", rank, ".npy"))),
                ElementsAre(15, 6, -1, 4.5));
  }
}

TEST_F(ReduceTest, OneFile) {
  Succeeds({"reduce", "--out=a.npy", "p0.npy"});
  EXPECT_THAT(Values<float>(NpyData("a.npy")), ElementsAre(1, 2, 3, -4));
  Succeeds({"reduce", "--op=avg", "--scale=2", "--out=b.npy", "p0.npy"});
  EXPECT_THAT(Values<float>(NpyData("b.npy")), ElementsAre(2, 4, 6, -8));
  Succeeds({"reduce", "--all", "--out=c", "p0.npy"});
  EXPECT_THAT(Values<float>(NpyData("c/rank0.npy")), ElementsAre(1, 2, 3, -4));
}

template <typename T>
std::string Repeated(T value) {
  return Bytes(std::vector<T>(67, value));
}

TEST_F(ReduceTest, IntegersWrap) {
  const auto sum = [&](const std::string& descr, const std::string& a, const std::string& b) {
    folder().Write("a.npy", NpyFile(descr, "(67,)", a));
    folder().Write("b.npy", NpyFile(descr, "(67,)", b));
    Succeeds({"reduce", "--out=out.npy", "--force", "a.npy", "b.npy"});
    return NpyData("out.npy");
  };
  EXPECT_EQ(sum("|i1", Repeated<int8_t>(120), Repeated<int8_t>(100)), Repeated<int8_t>(-36));
  EXPECT_EQ(sum("|u1", Repeated<uint8_t>(200), Repeated<uint8_t>(100)), Repeated<uint8_t>(44));
  EXPECT_EQ(sum("<i4", Repeated<int32_t>(-7), Repeated<int32_t>(3)), Repeated<int32_t>(-4));
  EXPECT_EQ(sum("<u4", Repeated<uint32_t>(~0U), Repeated<uint32_t>(2)), Repeated<uint32_t>(1));
  EXPECT_EQ(sum("<i8", Repeated(std::numeric_limits<int64_t>::max()), Repeated<int64_t>(1)),
            Repeated(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(sum("<u8", Repeated(~uint64_t{0}), Repeated<uint64_t>(6)), Repeated<uint64_t>(5));
  EXPECT_EQ(sum("<f8", Repeated(0.1), Repeated(0.2)), Repeated(0.1 + 0.2));
  EXPECT_EQ(sum("<f2", Repeated<uint16_t>(0x3c00), Repeated<uint16_t>(0x4000)),
            Repeated<uint16_t>(0x4200));  // 1 + 2 = 3
}

TEST_F(ReduceTest, ShapesOfAllKinds) {
  const auto sum = [&](const std::string& shape, const std::vector<float>& values) {
    folder().Write("a.npy", NpyFile("<f4", shape, Bytes(values)));
    Succeeds({"reduce", "--out=out.npy", "--force", "a.npy", "a.npy"});
    EXPECT_EQ(NpyType("out.npy"), "<f4 " + shape);
    return Values<float>(NpyData("out.npy"));
  };
  EXPECT_THAT(sum("()", {3}), ElementsAre(6));
  EXPECT_THAT(sum("(0,)", {}), ElementsAre());
  EXPECT_THAT(sum("(2, 0, 3)", {}), ElementsAre());
  EXPECT_THAT(sum("(1, 1, 1, 1, 1, 1, 1, 2)", {1, 2}), ElementsAre(2, 4));
}

TEST_F(ReduceTest, EightMebibytes) {
  constexpr size_t kCount = 2 << 20;
  Arguments arguments = {"reduce", "--out=sum.npy"};
  for (size_t rank = 0; rank < 3; ++rank) {
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i * (rank + 1));
    arguments.push_back(absl::StrCat("big", rank, ".npy"));
    folder().Write(arguments.back(),
                   NpyFile("<i4", absl::StrCat("(", kCount, ",)"), Bytes(values)));
  }
  Succeeds(arguments);
  const auto values = Values<int32_t>(NpyData("sum.npy"));
  ASSERT_EQ(values.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], static_cast<int32_t>(6 * i));
}

TEST_F(ReduceTest, SafetensorsReduceEveryTensor) {
  // bf16: 1.5 + 2.5 = 4, -1 + 1 = 0.  Odd offsets: "i" comes first and has 3 bytes.
  const std::string header = R"({"i":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[3,7]},)"
                             R"("f":{"dtype":"F32","shape":[],"data_offsets":[7,11]}})";
  folder().Write("a.safetensors", SafetensorsFile(header, Bytes<int8_t>({1, 2, 3}) +
                                                              Bytes<uint16_t>({0x3fc0, 0xbf80}) +
                                                              Bytes<float>({7})));
  folder().Write("b.safetensors", SafetensorsFile(header, Bytes<int8_t>({-1, 5, 100}) +
                                                              Bytes<uint16_t>({0x4020, 0x3f80}) +
                                                              Bytes<float>({8})));
  const Result result =
      Succeeds({"reduce", "--out=sum.safetensors", "a.safetensors", "b.safetensors"});
  EXPECT_THAT(result.out,
              MatchesRegex("sum.safetensors: 3 tensors, 11 bytes, from 2 ranks in .*\n"));
  const std::string file = files::ReadFile(folder() / "sum.safetensors");
  EXPECT_EQ(file.substr(file.size() - 11),
            Bytes<float>({15}) + Bytes<uint16_t>({0x4080, 0}) + Bytes<int8_t>({0, 7, 103}));
}

TEST_F(ReduceTest, RefusesWhatCannotBeReduced) {
  const auto write = [&](const std::string& descr) {
    folder().Write("a.npy", NpyFile(descr, "(0,)", ""));
  };
  for (const auto& [descr, name] : std::vector<std::pair<std::string, std::string>>{
           {"|b1", "bool"}, {"<i2", "i16"}, {"<u2", "u16"}, {"<c8", "c64"}, {"<c16", "c128"}}) {
    write(descr);
    Fails(1,
          absl::StrCat("rank 0: a.npy: ", name,
                       " cannot be reduced; f32 f64 f16 bf16 i8 u8 i32 "
                       "u32 i64 u64 can"),
          {"reduce", "--out=out.npy", "a.npy", "a.npy"});
  }
  write("<i4");
  Fails(1, "rank 0: a.npy: i32 has no average; f32 f64 f16 bf16 have",
        {"reduce", "--op=avg", "--out=out.npy", "a.npy", "a.npy"});
  Fails(1, "rank 0: a.npy: i32 cannot be scaled; f32 f64 f16 bf16 can",
        {"reduce", "--scale=2", "--out=out.npy", "a.npy", "a.npy"});
  folder().Write(
      "a.safetensors",
      SafetensorsFile(R"({"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "x"));
  Fails(1, "rank 0: a.safetensors: tensor \"w\": f8e4m3 cannot be reduced",
        {"reduce", "--out=out.safetensors", "a.safetensors"});
}

TEST_F(ReduceTest, RefusesShapesAndDTypesThatDiffer) {
  folder().Write("q.npy", NpyFile("<f4", "(4,)", Bytes<float>({1, 2, 3, 4})));
  Fails(1,
        "rank 2: q.npy: f32[4] differs from f32[2, 2] of rank 0 (p0.npy): a reduction needs equal "
        "shapes",
        {"reduce", "--out=out.npy", "p0.npy", "p1.npy", "q.npy"});
  folder().Write("r.npy", NpyFile("<f8", "(2, 2)", Bytes<double>({1, 2, 3, 4})));
  Fails(1, "rank 1: r.npy: dtype f64 differs from f32 of rank 0 (p0.npy)",
        {"reduce", "--out=out.npy", "p0.npy", "r.npy", "p1.npy"});
}

TEST_F(ReduceTest, RefusesWrongFlags) {
  Fails(2, "--op: mean not in {sum,prod,min,max,avg}",
        {"reduce", "--op=mean", "--out=out.npy", "p0.npy"});
  Fails(2, "--scale=inf is not a finite number",
        {"reduce", "--scale=inf", "--out=o.npy", "p0.npy"});
  Fails(2, "--scale", {"reduce", "--scale=two", "--out=o.npy", "p0.npy"});
  Fails(2, "not expected: --dim=0", {"reduce", "--dim=0", "--out=o.npy", "p0.npy"});
}

}  // namespace
}  // namespace mp::command
