// An output appears whole or not at all: no name before Commit, nothing left without it, nothing
// replaced that must stay.  Both ways of creating (without a name, and with a hidden one) keep the
// same promises.

#include "mp/files/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"

namespace mp::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class OutputFileTest : public testing::TestWithParam<bool> {
 protected:
  absl::StatusOr<OutputFile> Create(const std::string& path, bool force = false) {
    auto file = OutputFile::Create(path, 5, {.force = force, .hidden_name = GetParam()});
    if (file.ok()) std::memcpy(file->data(), "12345", 5);
    return file;
  }
  std::string Refusal(const std::string& path, bool force = false) {
    const auto file = Create(path, force);
    EXPECT_FALSE(file.ok());
    return std::string(file.status().message());
  }
  TempFolder folder_;
};

TEST_P(OutputFileTest, AppearsWithCommit) {
  auto file = Create(folder_ / "out");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ReadFile(folder_ / "out"), "12345");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
  struct stat info;
  ASSERT_EQ(stat((folder_ / "out").c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_P(OutputFileTest, LeavesNothingWithoutCommit) {
  { ASSERT_TRUE(Create(folder_ / "out").ok()); }
  EXPECT_THAT(folder_.Names(), IsEmpty());
  folder_.Write("out", "old");
  { ASSERT_TRUE(Create(folder_ / "out", true).ok()); }
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
  EXPECT_EQ(ReadFile(folder_ / "out"), "old");
}

TEST_P(OutputFileTest, ReplacesOnlyWithForce) {
  folder_.Write("out", "old");
  EXPECT_EQ(Refusal(folder_ / "out"), folder_ / "out: exists already; --force replaces it");
  EXPECT_EQ(ReadFile(folder_ / "out"), "old");
  auto file = Create(folder_ / "out", true);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ReadFile(folder_ / "out"), "12345");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_P(OutputFileTest, ReplacesNothingThatCameMeanwhile) {
  {
    auto file = Create(folder_ / "out");
    ASSERT_TRUE(file.ok());
    folder_.Write("out", "newer");
    EXPECT_THAT(file->Commit().message(), HasSubstr("File exists"));
  }
  EXPECT_EQ(ReadFile(folder_ / "out"), "newer");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_P(OutputFileTest, ForceReplacesALinkAndNotItsTarget) {
  folder_.Write("precious", "old");
  std::filesystem::create_symlink("precious", folder_ / "out");
  EXPECT_THAT(Refusal(folder_ / "out"), HasSubstr("exists already"));
  auto file = Create(folder_ / "out", true);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(ReadFile(folder_ / "out"), "12345");
  EXPECT_EQ(ReadFile(folder_ / "precious"), "old");
}

TEST_P(OutputFileTest, RefusesImpossibleTargets) {
  const std::string device = folder_ / "device";
  ASSERT_EQ(symlink("/dev/null", device.c_str()), 0);
  for (const bool force : {false, true}) {
    EXPECT_EQ(Refusal(folder_.path(), force), folder_.path() + ": is a folder, not a file");
    EXPECT_THAT(Refusal(folder_ / "none/", force), HasSubstr("names no file"));
    EXPECT_THAT(Refusal("", force), HasSubstr("names no file"));
    EXPECT_THAT(Refusal(folder_ / "none/out", force),
                StartsWith(folder_ / "none/out: cannot be created: No such file or directory"));
    EXPECT_THAT(Refusal(device, force), HasSubstr("leads to what is not a regular file"));
    EXPECT_THAT(Refusal("/dev/null", force), HasSubstr("is not a regular file"));
    EXPECT_THAT(Refusal("/proc/out", force), HasSubstr("cannot be created"));
  }
  EXPECT_THAT(Refusal(folder_.Write("a", "x") + "/out"), HasSubstr("Not a directory"));
}

TEST_P(OutputFileTest, RefusesMoreThanTheDiskHas) {
  const auto file =
      OutputFile::Create(folder_ / "out", int64_t{1} << 60, {.hidden_name = GetParam()});
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()),
              StartsWith(folder_ / "out: cannot reserve 1152921504606846976 bytes: "));
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_P(OutputFileTest, SeveralAtOnceInOneFolder) {
  auto a = Create(folder_ / "a");
  auto b = Create(folder_ / "b");
  ASSERT_TRUE(a.ok() && b.ok());
  OutputFile moved = *std::move(a);
  ASSERT_TRUE(b->Commit().ok());
  ASSERT_TRUE(moved.Commit().ok());
  EXPECT_THAT(folder_.Names(), ElementsAre("a", "b"));
}

INSTANTIATE_TEST_SUITE_P(Nameless, OutputFileTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Hidden, OutputFileTest, testing::Values(true));

}  // namespace
}  // namespace mp::files
