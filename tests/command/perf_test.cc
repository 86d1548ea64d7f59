// `mp perf`: every operation through every door, its columns, and what is wrong usage.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/command/harness.h"

namespace mp::command {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class PerfTest : public CommandTest {
 protected:
  nlohmann::json Rows(const Arguments& flags) {
    Arguments arguments = {"perf", "--json", "--iterations=2", "--warmup=1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto json = nlohmann::json::parse(Succeeds(arguments).out, nullptr, false);
    for (const auto& row : json["rows"]) {
      for (const char* place : {"out_of_place", "in_place"}) {
        const auto& times = row[place];
        EXPECT_EQ(times["wrong"], 0);
        EXPECT_GT(times["time_us"], 0);
        EXPECT_LE(times["min_us"], times["median_us"]);
        EXPECT_LE(times["median_us"], times["p99_us"]);
      }
    }
    return json["rows"];
  }
  void WriteProgram(const std::string& name, const std::string& body) {
    std::filesystem::create_directories(folder().path() + "/peers");
    const std::string path = folder().Write(name, absl::StrCat("#!/bin/sh\n", body, "\n"));
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  static std::vector<int64_t> Of(const nlohmann::json& rows, const char* field) {
    std::vector<int64_t> values;
    for (const auto& row : rows) values.push_back(row[field]);
    return values;
  }
};

TEST_F(PerfTest, EveryOperationThroughEveryDoorIsRight) {
  for (const char* op : {"allreduce", "gather", "allgather"}) {
    for (const Arguments& how : {Arguments{"--door=rank"},
                                 {"--door=call"},
                                 {"--overlap"},
                                 {"--door=call", "--overlap"},
                                 {"--batch=3"},
                                 {"--batch=2", "--overlap"}}) {
      Arguments flags = {absl::StrCat("--op=", op), "--ranks=3", "--min_bytes=8",
                         "--max_bytes=20000", "--factor=13"};
      flags.insert(flags.end(), how.begin(), how.end());
      EXPECT_THAT(Rows(flags), SizeIs(4)) << op << " " << how[0];
    }
  }
}

TEST_F(PerfTest, EveryTypeAndReduction) {
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "u32", "i64", "u64"}) {
    for (const char* redop : {"sum", "prod", "min", "max"}) {
      Rows({absl::StrCat("--dtype=", dtype), absl::StrCat("--redop=", redop), "--ranks=5",
            "--min_bytes=1000", "--max_bytes=1000"});
    }
  }
  for (const char* dtype : {"bool", "f8e4m3", "i16", "c128"}) {
    Rows({absl::StrCat("--dtype=", dtype), "--op=gather", "--uneven", "--root=1", "--rows=7",
          "--min_bytes=5000", "--max_bytes=5000"});
  }
}

TEST_F(PerfTest, SizesAreWhatTheyAreInNcclTests) {
  const auto reduced = Rows({"--min_bytes=8", "--max_bytes=1K", "--factor=8"});
  EXPECT_THAT(Of(reduced, "size"), ElementsAre(8, 64, 512));
  EXPECT_THAT(Of(reduced, "count"), ElementsAre(2, 16, 128));
  const auto times = reduced[2]["in_place"];
  const double algbw = 512 / times["time_us"].get<double>() / 1e3;
  EXPECT_NEAR(times["algbw_gbs"], algbw, algbw / 1e6);
  EXPECT_NEAR(times["busbw_gbs"], algbw, algbw / 1e6);  // 2 (2 - 1) / 2
  const auto gathered =
      Rows({"--op=allgather", "--ranks=4", "--min_bytes=4K", "--max_bytes=4K", "--rows=8"});
  EXPECT_THAT(Of(gathered, "size"), ElementsAre(4096));
  EXPECT_THAT(Of(gathered, "count"), ElementsAre(256));  // 8 rows of 32
  const auto gather_times = gathered[0]["out_of_place"];
  EXPECT_NEAR(gather_times["busbw_gbs"].get<double>(),
              gather_times["algbw_gbs"].get<double>() * 3 / 4, 1e-6);
  // The smallest result has an element of each rank.
  EXPECT_THAT(
      Of(Rows({"--op=gather", "--ranks=4", "--min_bytes=4", "--max_bytes=16", "--factor=2"}),
         "size"),
      ElementsAre(16));
}

TEST_F(PerfTest, PrintsATable) {
  const std::string out =
      Succeeds({"perf", "--min_bytes=1M", "--max_bytes=1M", "--iterations=2", "--op=gather"}).out;
  EXPECT_THAT(out, StartsWith("# gather on host, 2 ranks, door rank, batch 1\n"));
  EXPECT_THAT(out, AllOf(HasSubstr("algbw"), HasSubstr("busbw"), HasSubstr("#wrong"),
                         HasSubstr("p99"), HasSubstr("     1048576       131072    f32   none")));
}

// Peers that tell the same time whatever they are asked.
TEST_F(PerfTest, ComparesWithPrograms) {
  WriteProgram("peers/slow", "shift 4; for size; do echo $size 1000000 2000000; done");
  WriteProgram("peers/short", "echo \"$@\" >>asked; echo $5 500000 2000000");
  WriteProgram("peers/broken", "echo no such machine; exit 3");
  const auto json =
      nlohmann::json::parse(Succeeds({"perf", "--json", "--op=gather", "--ranks=3", "--rows=5",
                                      "--min_bytes=96", "--max_bytes=4K", "--iterations=2",
                                      "--peers=peers", "--rounds=2", "--seconds=0.01"})
                                .out);
  const auto& rows = json["peers"]["rows"];
  ASSERT_THAT(rows, SizeIs(3));
  for (const auto& row : rows) {
    EXPECT_EQ(row["peers"]["slow"]["median_us"], 1000000);
    EXPECT_GT(row["peers"]["slow"]["ratio"], 1) << "an operation that takes a second";
    EXPECT_GT(row["median_us"], 0);
    EXPECT_GT(row["hop_us"], 0);
  }
  EXPECT_EQ(rows[0]["peers"]["short"]["median_us"], 500000);
  EXPECT_EQ(rows[1]["peers"].count("short"), 0);
  EXPECT_THAT(json["peers"]["failures"],
              ElementsAre("broken has ended with status 3 and no time; it said: no such machine"));
  std::string asked;
  for (int round = 0; round < 2; ++round) {
    asked += "gather 3 5 0.01";
    for (const int64_t size : Of(rows, "size")) asked += absl::StrCat(" ", size);
    asked += "\n";
  }
  EXPECT_EQ(files::ReadFile(folder().path() + "/asked"), asked);
}

TEST_F(PerfTest, PrintsATableOfPeers) {
  WriteProgram("peers/other", "echo 4096 2000000 2000001");
  const std::string out = Succeeds({"perf", "--min_bytes=4K", "--max_bytes=16K", "--iterations=2",
                                    "--peers", "--rounds=1"},
                                   {.environment = {"MP_PEERS=peers"}})
                              .out;
  EXPECT_THAT(out, AllOf(HasSubstr("medians of 1 rounds\n"), HasSubstr("hop"),
                         HasSubstr("               other\n"), HasSubstr(" 2000000.00 ("),
                         HasSubstr("                   -\n")));
}

TEST_F(PerfTest, WrongUsage) {
  Fails(2, "--peers: no programs", {"perf", "--peers"});
  Fails(2, "nowhere: no such folder", {"perf", "--peers=nowhere"});
  Fails(2, ".: no program in it", {"perf", "--peers=."});
  Fails(2, "--peers goes with f32", {"perf", "--peers=.", "--dtype=bf16"});
  Fails(2, "--ranks: Value 1 not in range", {"perf", "--ranks=1"});
  Fails(2, "--dtype=f31 is no dtype", {"perf", "--dtype=f31"});
  Fails(2, "--dtype=bool can be gathered, not reduced", {"perf", "--dtype=bool"});
  Fails(2, "--root=2 of 2 ranks", {"perf", "--root=2"});
  Fails(2, "--batch goes with --door=rank", {"perf", "--batch=2", "--door=call"});
  Fails(2, "is above --max_bytes=8", {"perf", "--min_bytes=1K", "--max_bytes=8"});
  Fails(2, "--redop=prod is exact up to 7 ranks", {"perf", "--redop=prod", "--ranks=8"});
  Fails(2, "--devices=0 goes with --backend=cuda", {"perf", "--devices=0"});
  Fails(2, "names 1 GPUs for 2 ranks", {"perf", "--backend=cuda", "--devices=0"});
}

}  // namespace
}  // namespace mp::command
