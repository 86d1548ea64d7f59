// A file is mapped or refused with a clear line, and never waited for; one file is known under all
// its names.

#include "mp/files/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"

namespace mp::files {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Refusal(const std::string& path) {
  const auto file = MappedFile::Open(path);
  EXPECT_FALSE(file.ok());
  return std::string(file.status().message());
}

TEST(MappedFile, HasTheBytes) {
  const TempFolder folder;
  auto file = MappedFile::Open(folder.Write("a", "some bytes"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "some bytes");
  EXPECT_EQ(file->path(), folder / "a");
  MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes(), "some bytes");
  auto other = MappedFile::Open(folder.Write("b", "others"));
  ASSERT_TRUE(other.ok());
  moved = *std::move(other);
  EXPECT_EQ(moved.bytes(), "others");
}

TEST(MappedFile, TellsFilesApart) {
  const TempFolder folder;
  folder.Write("a", "x");
  folder.Write("b", "x");
  std::filesystem::create_hard_link(folder / "a", folder / "hard");
  std::filesystem::create_symlink("a", folder / "soft");
  const auto a = MappedFile::Open(folder / "a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->id(), FileIdOf(folder / "hard"));
  EXPECT_EQ(a->id(), FileIdOf(folder / "soft"));
  EXPECT_NE(a->id(), FileIdOf(folder / "b"));
  EXPECT_EQ(FileIdOf(folder / "none"), std::nullopt);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_THAT(Refusal(folder / "none"),
              StartsWith(folder / "none: cannot be opened: No such file"));
  EXPECT_EQ(Refusal(folder.path()), folder.path() + ": is a folder, not a file");
  EXPECT_EQ(Refusal(folder.Write("empty", "")), folder / "empty: is empty");
  EXPECT_EQ(Refusal("/dev/null"), "/dev/null: is not a regular file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(Refusal(folder / "pipe"), folder / "pipe: is not a regular file");
  EXPECT_THAT(Refusal(folder / "line\nbreak"), HasSubstr("line\\nbreak"));
  EXPECT_THAT(Refusal(""), HasSubstr("No such file"));
  folder.Write("secret", "x");
  ASSERT_EQ(chmod((folder / "secret").c_str(), 0), 0);
  if (geteuid() != 0) {  // root may read everything
    EXPECT_THAT(Refusal(folder / "secret"), HasSubstr("cannot be opened: Permission denied"));
  }
}

}  // namespace
}  // namespace mp::files
