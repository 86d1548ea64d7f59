// The command over CUDA: data goes from files to GPUs and back, every element compared with a
// closed form; what `auto` takes; what a machine lacks is said in one line.  The GPUs are fakes,
// which keep them apart from the host's memory and find what hardware would not forgive.

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/command/checkpoint.h"
#include "tests/command/shards.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::Bytes;
using files::NpyFile;
using files::Values;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

class CudaBackendTest : public ShardTest {
 protected:
  CudaBackendTest() : ShardTest("tests/command/mp_on_fakes") {}

  // Streams run at once with odd seeds, with even ones only as far as somebody asks.
  static RunOptions Gpus(int count, int seed = 1) {
    return {
        .environment = {absl::StrCat("MP_FAKE_GPUS=", count), absl::StrCat("MP_FAKE_SEED=", seed)}};
  }

  // Files of `count` elements: 100 (rank + 1) + i of rank.
  void WriteParts(int ranks, int count) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<float> values(static_cast<size_t>(count));
      std::iota(values.begin(), values.end(), 100.0F * static_cast<float>(rank + 1));
      folder().Write(absl::StrCat("p", rank, ".npy"),
                     NpyFile("<f4", absl::StrCat("(", count, ",)"), Bytes(values)));
    }
  }
};

TEST_F(CudaBackendTest, GathersToEveryRoot) {
  const auto shards = WriteShards({3, 0, 2}, 1, {1, 0, 3, 2});
  for (int seed = 1; seed <= 4; ++seed) {
    for (int root = 0; root < 4; ++root) {
      const Result result =
          Succeeds(With({"gather", "--backend=cuda", "--dim=1", absl::StrCat("--root=", root),
                         "--out=full.npy", "--force"},
                        shards),
                   Gpus(4, seed));
      EXPECT_THAT(
          result.out,
          MatchesRegex("full.npy: i32\\[3, 6, 2\\], 144 bytes, from 4 ranks on cuda in .*\n"));
      ExpectWhole("full.npy");
    }
  }
}

TEST_F(CudaBackendTest, GathersToAll) {
  const auto shards = WriteShards({0, 5}, 0, {2, 1, 4});
  Succeeds(With({"gather", "--backend=cuda", "--dim=0", "--all", "--out=results"}, shards),
           Gpus(5, 2));
  for (int rank = 0; rank < 3; ++rank) ExpectWhole(absl::StrCat("results/rank", rank, ".npy"));
}

TEST_F(CudaBackendTest, GathersOneFile) {
  const auto shards = WriteShards({2, 0}, 1, {3});
  Succeeds(With({"gather", "--backend=cuda", "--out=full.npy"}, shards), Gpus(1));
  ExpectWhole("full.npy");
}

TEST_F(CudaBackendTest, Reduces) {
  WriteParts(3, 1000);
  std::vector<float> sums(1000);
  std::iota(sums.begin(), sums.end(), 0.0F);
  for (float& sum : sums) sum = 600 + 3 * sum;
  for (int seed = 1; seed <= 4; ++seed) {
    Succeeds({"reduce", "--backend=cuda", "--out=sum.npy", "--force", "p0.npy", "p1.npy", "p2.npy"},
             Gpus(3, seed));
    EXPECT_EQ(Values<float>(NpyData("sum.npy")), sums);
  }
  Succeeds({"reduce", "--backend=cuda", "--all", "--out=all", "p0.npy", "p1.npy", "p2.npy"},
           Gpus(3, 2));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Values<float>(NpyData(absl::StrCat("all/rank", rank, ".npy"))), sums);
  }
  EXPECT_EQ(Values<float>(NpyData("sum.npy")), sums);
  Succeeds({"reduce", "--backend=cuda", "--op=max", "--out=one.npy", "p1.npy"}, Gpus(1));
  std::iota(sums.begin(), sums.end(), 200.0F);
  EXPECT_EQ(Values<float>(NpyData("one.npy")), sums);
}

TEST_F(CudaBackendTest, MergesCheckpoints) {
  const std::string norm = Bytes<float>({7, 8, 9});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<uint16_t> wide(static_cast<size_t>(6 + 4 * rank));
    std::iota(wide.begin(), wide.end(), static_cast<uint16_t>(100 * rank));
    folder().Write(absl::StrCat("t", rank, ".safetensors"),
                   FileOf({{"norm", "F32", {3}, norm},
                           {"tall", "I8", {1, 3}, std::string(3, static_cast<char>('a' + rank))},
                           {"none", "F32", {0, 4}, ""},
                           {"wide", "BF16", {2, 3 + 2 * rank}, Bytes(wide)}}));
  }
  for (int seed = 1; seed <= 2; ++seed) {
    Succeeds({"gather", "--backend=cuda", "--dim=0", "--dim=wide:1", "--dim=norm:same", "--force",
              "--root=1", "--out=o.safetensors", "t0.safetensors", "t1.safetensors"},
             Gpus(2, seed));
    const auto contents = Contents(files::ReadFile(folder() / "o.safetensors"));
    EXPECT_EQ(contents.at("norm"), Content("F32[3]", norm));
    EXPECT_EQ(contents.at("tall"), Content("I8[2,3]", "aaabbb"));
    EXPECT_EQ(contents.at("none"), Content("F32[0,4]", ""));
    EXPECT_EQ(contents.at("wide"),
              Content("BF16[2,8]", Bytes<uint16_t>({0, 1, 2, 100, 101, 102, 103, 104,  //
                                                    3, 4, 5, 105, 106, 107, 108, 109})));
  }
}

TEST_F(CudaBackendTest, DevicesInAnyOrder) {
  WriteParts(2, 3);
  Succeeds(
      {"reduce", "--backend=cuda", "--devices=3,1", "--op=min", "--out=o.npy", "p1.npy", "p0.npy"},
      Gpus(4));
  EXPECT_THAT(Values<float>(NpyData("o.npy")), ElementsAre(100, 101, 102));
  Fails(1, "--devices=0,4: there is no GPU 4: this machine has 4 GPUs, counted from 0",
        {"gather", "--backend=cuda", "--devices=0,4", "--out=q.npy", "p0.npy", "p1.npy"}, Gpus(4));
}

std::string BackendOf(const Result& result) {
  return nlohmann::json::parse(result.out, nullptr, false).value("backend", "");
}

TEST_F(CudaBackendTest, AutoTakesGpusWhereEveryRankHasOne) {
  WriteParts(2, 3);
  const Arguments reduce = {"reduce", "--json", "--force", "--out=o.npy", "p0.npy", "p1.npy"};
  EXPECT_EQ(BackendOf(Succeeds(reduce, Gpus(2))), "cuda");
  EXPECT_EQ(BackendOf(Succeeds(reduce, Gpus(3))), "cuda");
  EXPECT_EQ(BackendOf(Succeeds(reduce, Gpus(1))), "host");
  EXPECT_EQ(BackendOf(Succeeds(reduce, Gpus(0))), "host");
  EXPECT_EQ(BackendOf(Succeeds(reduce)), "host");  // no driver
  EXPECT_THAT(Values<float>(NpyData("o.npy")), ElementsAre(300, 302, 304));
  EXPECT_EQ(BackendOf(Succeeds(With(reduce, {"--backend=host"}), Gpus(2))), "host");
}

TEST_F(CudaBackendTest, RanksShareAGpu) {
  WriteParts(3, 1000);
  std::vector<float> means(1000);
  std::iota(means.begin(), means.end(), 200.0F);
  const Arguments average = {"reduce",  "--backend=cuda", "--op=avg", "--out=o.npy",
                             "--force", "p0.npy",         "p1.npy",   "p2.npy"};
  for (const char* devices : {"--devices=0,0,0", "--devices=1,0,1"}) {
    Succeeds(With(average, {devices}), Gpus(2));
    EXPECT_EQ(Values<float>(NpyData("o.npy")), means);
  }
  const auto shards = WriteShards({0, 5}, 0, {2, 1, 4});
  Succeeds(
      With({"gather", "--backend=cuda", "--devices=0,0,0", "--dim=0", "--out=full.npy"}, shards),
      Gpus(1));
  ExpectWhole("full.npy");
}

TEST_F(CudaBackendTest, WhatIsMissing) {
  WriteParts(2, 3);
  const Arguments reduce = {"reduce", "--backend=cuda", "--out=o.npy", "p0.npy", "p1.npy"};
  Fails(1, "--backend=cuda: no NVIDIA driver; --backend=host works everywhere", reduce);
  Fails(1, "--backend=cuda: cudaGetDeviceCount(&count): cudaErrorNoDevice", reduce, Gpus(0));
  Fails(1,
        "--backend=cuda: 2 ranks and 1 GPU: --devices=0,0,... lets ranks share one; --backend=host",
        reduce, Gpus(1));
  Fails(1, "--backend=cuda: no NVIDIA driver", With(reduce, {"--devices=0,1"}));
}

TEST_F(CudaBackendTest, Info) {
  EXPECT_THAT(Succeeds({"info", "--backend=cuda"}, Gpus(3)).out,
              EndsWith("backends  host, cuda\n"
                       "cuda      runtime 13.0, driver 13.1\n"
                       "  nccl    2.28.9\n"
                       "  gpu 0   Fake GPU, compute capability 9.0, 81920 MiB\n"
                       "  gpu 1   Fake GPU, compute capability 9.0, 81920 MiB\n"
                       "  gpu 2   Fake GPU, compute capability 9.0, 81920 MiB\n"
                       "  peers     0   1   2   (whether a row's GPU reaches a column's memory)\n"
                       "       0    - yes yes\n"
                       "       1  yes   - yes\n"
                       "       2  yes yes   -\n"
                       "  route   0 and 1: AllReduce by kernels over peer pointers up to 1 MiB, "
                       "by NCCL above; Gather and AllGather by copies straight into the peer's "
                       "memory\n"
                       "  route   0 and 2: AllReduce by kernels over peer pointers up to 1 MiB, "
                       "by NCCL above; Gather and AllGather by copies straight into the peer's "
                       "memory\n"
                       "  route   1 and 2: AllReduce by kernels over peer pointers up to 1 MiB, "
                       "by NCCL above; Gather and AllGather by copies straight into the peer's "
                       "memory\n"));
  EXPECT_THAT(Succeeds({"info"}, Gpus(1)).out,
              EndsWith("  gpu 0   Fake GPU, compute capability 9.0, 81920 MiB\n"));
  EXPECT_THAT(Succeeds({"info"}).out, EndsWith("cuda      runtime 13.0, driver none\n"
                                               "  nccl    2.28.9\n"
                                               "  gpu     none: no NVIDIA driver\n"));
}

TEST_F(CudaBackendTest, InfoForPrograms) {
  const auto json = nlohmann::json::parse(Succeeds({"info", "--json"}, Gpus(2)).out);
  EXPECT_THAT(json["backends"], ElementsAre("host", "cuda"));
  EXPECT_EQ(json["cuda"]["runtime"], "13.0");
  EXPECT_EQ(json["cuda"]["driver"], "13.1");
  EXPECT_EQ(json["cuda"]["nccl"], "2.28.9");
  ASSERT_EQ(json["cuda"]["devices"].size(), 2U);
  EXPECT_EQ(json["cuda"]["devices"][1]["name"], "Fake GPU");
  EXPECT_EQ(json["cuda"]["devices"][1]["compute_capability"], "9.0");
  EXPECT_EQ(json["cuda"]["devices"][1]["memory_bytes"], int64_t{80} << 30);
  EXPECT_EQ(json["cuda"]["devices"][1]["usable"], true);
  EXPECT_THAT(json["cuda"]["devices"][1]["peer_access"], ElementsAre(true, true));
  ASSERT_EQ(json["cuda"]["routes"].size(), 1U);
  EXPECT_THAT(json["cuda"]["routes"][0]["devices"], ElementsAre(0, 1));
  EXPECT_THAT(std::string(json["cuda"]["routes"][0]["route"]), HasSubstr("NCCL"));
  const auto none = nlohmann::json::parse(Succeeds({"info", "--json"}).out);
  EXPECT_TRUE(none["cuda"]["driver"].is_null());
  EXPECT_EQ(none["cuda"]["why_no_gpu"], "no NVIDIA driver");
  EXPECT_EQ(none["cuda"]["devices"].size(), 0U);
}

}  // namespace
}  // namespace mp::command
