// --backend and --devices as far as they can be wrong by themselves, the program that people run on
// a machine whose GPUs it cannot see, and one without the CUDA backend.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/command/harness.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::Bytes;
using files::NpyFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class BackendFlagTest : public CommandTest {
 protected:
  using CommandTest::CommandTest;

  void SetUp() override {
    folder().Write("a.npy", NpyFile("<f4", "(2, 1)", Bytes<float>({1, 2})));
    folder().Write("b.npy", NpyFile("<f4", "(2, 1)", Bytes<float>({3, 4})));
  }

  // `--backend=cuda` without a GPU, or without the backend.
  void FailsWithAdvice() {
    for (const char* command : {"gather", "reduce"}) {
      Fails(1, "; --backend=host works everywhere",
            {command, "--backend=cuda", "--out=o.npy", "a.npy", "b.npy"});
      Fails(1, "mp " + std::string(command) + ": --backend=cuda: ",
            {command, "--backend=cuda", "--devices=0,1", "--out=o.npy", "a.npy", "b.npy"});
    }
  }

  void HostWorks() {
    for (const char* backend : {"--backend=host", "--backend=auto"}) {
      const Result result =
          Succeeds({"reduce", backend, "--json", "--force", "--out=o.npy", "a.npy", "b.npy"});
      EXPECT_EQ(nlohmann::json::parse(result.out)["backend"], "host");
      EXPECT_THAT(files::Values<float>(NpyData("o.npy")), ElementsAre(4, 6));
    }
  }
};

class CudaLeftOutTest : public BackendFlagTest {
 protected:
  CudaLeftOutTest() : BackendFlagTest("tests/command/mp_left_out") {}
};

TEST_F(BackendFlagTest, WrongUsage) {
  Fails(2, "--backend: gpu not in {auto,host,cuda}",
        {"reduce", "--backend=gpu", "--out=o.npy", "a.npy"});
  Fails(2, "--backend: gpu not in {auto,host,cuda}", {"info", "--backend=gpu"});
  Fails(2, "not expected: --devices=0", {"info", "--devices=0"});
  Fails(2, "not expected: --devices=0", {"embed", "--devices=0", "a.txt"});
  Fails(2, "--devices=0 goes with --backend=cuda, not with auto",
        {"gather", "--devices=0", "--out=o.npy", "a.npy"});
  Fails(2, "--devices=0 goes with --backend=cuda, not with host",
        {"gather", "--backend=host", "--devices=0", "--out=o.npy", "a.npy"});
  Fails(2, "--devices=0,1 and 1 file do not go together: each rank needs a GPU",
        {"gather", "--backend=cuda", "--devices=0,1", "--out=o.npy", "a.npy"});
  Fails(2, "--devices=0 and 2 files do not go together",
        {"reduce", "--backend=cuda", "--devices", "0", "--out=o.npy", "a.npy", "b.npy"});
  for (const std::string devices : {"x", "0,", ",0", "-1", "0;1", "1.5", "99999999999"}) {
    Fails(2, "--devices=" + devices + ": must be numbers of GPUs like 0,1",
          {"gather", "--backend=cuda", "--devices=" + devices, "--out=o.npy", "a.npy"});
  }
  Fails(2, "--devices= has no value behind the =",
        {"gather", "--backend=cuda", "--devices=", "--out=o.npy", "a.npy"});
}

TEST_F(BackendFlagTest, WithoutAGpu) {
  FailsWithAdvice();
  HostWorks();
}

TEST_F(BackendFlagTest, InfoWithoutAGpu) {
  for (const char* nccl : {"MP_NCCL_LIBRARY=", "MP_NCCL_LIBRARY=/nowhere/libnccl.so.2"}) {
    const Result result = Succeeds({"info"}, {.environment = {nccl}});
    EXPECT_THAT(result.out, HasSubstr("backends  host"));
    EXPECT_THAT(result.out, HasSubstr("\ncuda      "));
  }
  EXPECT_THAT(Succeeds({"info", "--backend=host"}).out, Not(HasSubstr("\ncuda  ")));
  EXPECT_THAT(Succeeds({"info", "--backend=cuda"}).out, Not(HasSubstr("\nhost  ")));
}

TEST_F(CudaLeftOutTest, SaysSo) {
  EXPECT_THAT(Succeeds({"info"}).out, HasSubstr("backends  host\n"));
  EXPECT_THAT(Succeeds({"info"}).out, HasSubstr("\ncuda      left out: "));
  const auto json = nlohmann::json::parse(Succeeds({"info", "--json"}).out);
  EXPECT_THAT(json["backends"], ElementsAre("host"));
  EXPECT_NE(json["cuda"]["left_out"], "");
  Fails(1, "this build of mp has no CUDA backend: ",
        {"gather", "--backend=cuda", "--out=o.npy", "a.npy"});
  FailsWithAdvice();
  HostWorks();
}

}  // namespace
}  // namespace mp::command
