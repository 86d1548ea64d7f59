// What can be wrong with the command line alone is exit code 2 and one line that says what; --help
// is there for everything.

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
using testing::HasSubstr;
using testing::StartsWith;

class UsageTest : public CommandTest {
 protected:
  void SetUp() override {
    folder().Write("a.npy", NpyFile("<f4", "(2, 1)", Bytes<float>({1, 2})));
    folder().Write("b.npy", NpyFile("<f4", "(2, 2)", Bytes<float>({3, 4, 5, 6})));
    folder().Write("a.safetensors", files::SafetensorsFile("{}", ""));
  }
};

TEST_F(UsageTest, Help) {
  EXPECT_THAT(Succeeds({"--help"}).out, HasSubstr("mp gather --out=full.npy"));
  for (const std::string name : {"embed", "gather", "reduce", "perf", "info"}) {
    const std::string help = Succeeds({name, "--help"}).out;
    EXPECT_THAT(help, HasSubstr("Usage: mp " + name));
    EXPECT_THAT(help, HasSubstr("Examples:"));
    EXPECT_THAT(help, HasSubstr("--json"));
    EXPECT_EQ(help, Succeeds({name, "-h"}).out);
  }
  EXPECT_THAT(Succeeds({"--version"}).out, StartsWith("mp 0."));
}

TEST_F(UsageTest, Info) {
  EXPECT_THAT(Succeeds({"info"}).out, HasSubstr("backends  host"));
  const auto json = nlohmann::json::parse(Succeeds({"info", "--json"}).out, nullptr, false);
  EXPECT_GE(json["cores"], 1);
  EXPECT_THAT(json["route"], StartsWith("host memory"));
  EXPECT_GT(json["memory_bytes"], json["available_bytes"]);
  Fails(2, "not expected: extra", {"info", "extra"});
}

TEST_F(UsageTest, WrongUsage) {
  Fails(2, "mp: no subcommand is given (see mp --help)", {});
  Fails(2, "not expected: frobnicate", {"frobnicate"});
  Fails(2, "mp gather: no files are given", {"gather"});
  Fails(2, "mp reduce: no files are given", {"reduce", "--out=o.npy"});
  Fails(2, "--out=PATH is missing", {"gather", "a.npy"});
  Fails(2, "not expected: --bogus=1", {"gather", "--bogus=1", "--out=o.npy", "a.npy"});
  Fails(2, "not expected: -x", {"gather", "-x", "--out=o.npy", "a.npy"});
  Fails(2, "--ranks: Value 0 not in range", {"gather", "--ranks=0", "--out=o.npy", "a.npy"});
  Fails(2, "--ranks: Value -1 not in range", {"gather", "--ranks=-1", "--out=o.npy", "a.npy"});
  Fails(2, "--ranks", {"gather", "--ranks=two", "--out=o.npy", "a.npy"});
  Fails(2, "--ranks=3 and 2 files do not go together",
        {"gather", "--ranks=3", "--out=o.npy", "a.npy", "b.npy"});
  Fails(2, "--threads: Value 0 not in range", {"gather", "--threads=0", "--out=o.npy", "a.npy"});
  Fails(2, "--json and --quiet exclude each other",
        {"gather", "--json", "--quiet", "--out=o.npy", "a.npy"});
  Fails(2, "--all and --root exclude each other",
        {"gather", "--all", "--root=0", "--out=o", "a.npy"});
  Fails(2,
        "--out=o.npy is named like a file; --all writes a file for each rank into the folder --out",
        {"gather", "--all", "--out=o.npy", "a.npy"});
  Fails(2, "--root=2 is outside 0..1", {"gather", "--root=2", "--out=o.npy", "a.npy", "b.npy"});
  Fails(2, "--root=-1 is outside 0..0", {"gather", "--root=-1", "--out=o.npy", "a.npy"});
  Fails(2, "--backend: gpu not in {auto,host,cuda}",
        {"gather", "--backend=gpu", "--out=o.npy", "a.npy"});
  Fails(2, "--out: At Most 1 required but received 2",
        {"gather", "--out=o.npy", "--out=p.npy", "a.npy"});
  Fails(2, "--out= has no value behind the =", {"gather", "--out=", "a.npy", "b.npy", "--force"});
}

TEST_F(UsageTest, WrongDims) {
  Fails(2, "--dim=x is none of N, same, PATTERN:N and PATTERN:same",
        {"gather", "--dim=x", "--out=o.npy", "a.npy"});
  Fails(2, "--dim=1.5 is none of", {"gather", "--dim=1.5", "--out=o.npy", "a.npy"});
  Fails(2, "--dim=w: is none of", {"gather", "--dim=w:", "--out=o.safetensors", "a.safetensors"});
  Fails(2, "--dim=:1 has an empty pattern",
        {"gather", "--dim=:1", "--out=o.safetensors", "a.safetensors"});
  Fails(2, "--dim=0 and --dim=1 contradict",
        {"gather", "--dim=0", "--dim=1", "--out=o.npy", "a.npy"});
  Fails(2, "--dim=w:0: patterns are for .safetensors",
        {"gather", "--dim=w:0", "--out=o.npy", "a.npy"});
  Fails(1, "rank 0: a.npy: --dim=2 is outside -2..1 of f32[2, 1]",
        {"gather", "--dim=2", "--out=o.npy", "a.npy", "b.npy"});
  Fails(1, "rank 0: a.npy: --dim=-3 is outside -2..1 of f32[2, 1]",
        {"gather", "--dim=-3", "--out=o.npy", "a.npy", "b.npy"});
}

TEST_F(UsageTest, WrongFormats) {
  Fails(2, "a.npy and a.safetensors are of two formats",
        {"gather", "--out=o.npy", "a.npy", "a.safetensors"});
  Fails(2, "a.txt: the name ends neither", {"gather", "--out=o.npy", "a.txt"});
  Fails(2, "--out=o.safetensors: the name must end in .npy",
        {"gather", "--out=o.safetensors", "a.npy"});
  Fails(2, "--out=o: the name must end in .npy", {"reduce", "--out=o", "a.npy"});
}

TEST_F(UsageTest, NamesThatBreakLines) {
  Fails(1, "rank 0: a\\nb\\x1b[2J.npy: cannot be opened",
        {"gather", "--out=o.npy", "a\nb\x1b[2J.npy"});
  Fails(2, "not expected: --a\\nb", {"gather", "--a\nb", "--out=o.npy", "a.npy"});
}

TEST_F(UsageTest, NowhereToReport) {
  const Result result = Run({"gather", "--out=o.npy", "a.npy", "b.npy"}, {.out = "/dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot be written to stdout"));
  EXPECT_EQ(Run({"--help"}, {.out = "/dev/full"}).exit_code, 1);
}

}  // namespace
}  // namespace mp::command
