// What goes wrong around the data: files that cannot be read or written or do not go together, and
// what must never be replaced.  Every case is one line, exit code 1, and a folder as it was.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/command/harness.h"
#include "tests/files/samples.h"

namespace mp::command {
namespace {

using files::Bytes;
using files::NpyFile;

class MergeTest : public CommandTest {
 protected:
  void SetUp() override {
    folder().Write("a.npy", NpyFile("<f4", "(2, 1)", Bytes<float>({1, 2})));
    folder().Write("b.npy", NpyFile("<f4", "(2, 2)", Bytes<float>({3, 4, 5, 6})));
  }
};

TEST_F(MergeTest, ShapesThatDisagree) {
  folder().Write("c.npy", NpyFile("<f4", "(3, 1)", Bytes<float>({1, 2, 3})));
  Fails(
      1,
      "rank 2: c.npy: f32[3, 1] cannot be joined along dim 1 with f32[2, 1] of rank 0 (a.npy): the "
      "other dimensions must be equal",
      {"gather", "--out=o.npy", "a.npy", "b.npy", "c.npy"});
  folder().Write("s.npy", NpyFile("<f4", "()", Bytes<float>({1})));
  Fails(1, "rank 0: s.npy: f32[] has no dimension to be joined along; a gather needs at least one",
        {"gather", "--out=o.npy", "s.npy", "s.npy"});
  folder().Write("h.npy", NpyFile("<f2", "(2, 1)", "abcd"));
  Fails(1, "rank 1: h.npy: dtype f16 differs from f32 of rank 0 (a.npy)",
        {"gather", "--out=o.npy", "a.npy", "h.npy"});
}

TEST_F(MergeTest, ResultBeyondAllLimits) {
  folder().Write("z.npy", NpyFile("|u1", "(0, 9223372036854775807)", ""));
  Fails(1, "rank 0: z.npy: the result's shape", {"gather", "--out=o.npy", "z.npy", "z.npy"});
}

TEST_F(MergeTest, FilesThatCannotBeRead) {
  const auto fails = [&](const std::string& text, const std::string& name) {
    Fails(1, "rank 1: " + text, {"gather", "--out=o.npy", "a.npy", name});
    Fails(1, "rank 1: " + text, {"reduce", "--out=o.npy", "a.npy", name});
  };
  fails("none.npy: cannot be opened: No such file or directory", "none.npy");
  std::filesystem::create_directory(folder() / "folder.npy");
  fails("folder.npy: is a folder, not a file", "folder.npy");
  folder().Write("empty.npy", "");
  fails("empty.npy: is empty", "empty.npy");
  folder().Write("cut.npy", NpyFile("<f4", "(2, 1)", "abc"));
  fails("cut.npy: is truncated: f32[2, 1] takes 8 bytes behind the header, and 3 are there",
        "cut.npy");
  folder().Write("fortran.npy",
                 files::NpyWithHeader("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}",
                                      std::string(16, 'x')));
  fails(
      "fortran.npy: shape [2, 2] is stored in Fortran order; save it again with "
      "np.ascontiguousarray(a)",
      "fortran.npy");
  folder().Write("big.npy", NpyFile(">f4", "(1,)", "abcd"));
  fails("big.npy: dtype '>f4' is big-endian", "big.npy");
  ASSERT_EQ(mkfifo((folder() / "pipe.npy").c_str(), 0600), 0);
  Fails(1, "rank 0: pipe.npy: is not a regular file", {"gather", "--out=o.npy", "pipe.npy"});
  if (geteuid() != 0) {
    folder().Write("secret.npy", "x");
    chmod((folder() / "secret.npy").c_str(), 0);
    Fails(1, "secret.npy: cannot be opened: Permission denied",
          {"gather", "--out=o.npy", "secret.npy"});
  }
}

TEST_F(MergeTest, OutputsThatCannotBeWritten) {
  folder().Write("there.npy", "old");
  Fails(1, "mp gather: there.npy: exists already; --force replaces it",
        {"gather", "--out=there.npy", "a.npy", "b.npy"});
  Succeeds({"gather", "--out=there.npy", "--force", "a.npy", "b.npy"});
  EXPECT_EQ(files::Values<float>(NpyData("there.npy")), (std::vector<float>{1, 3, 4, 2, 5, 6}));
  std::filesystem::create_directory(folder() / "folder.npy");
  Fails(1, "folder.npy: is a folder, not a file",
        {"gather", "--out=folder.npy", "--force", "a.npy", "b.npy"});
  Fails(1, "none/o.npy: cannot be created: No such file or directory",
        {"gather", "--out=none/o.npy", "a.npy", "b.npy"});
  Fails(1, "/proc/o.npy: cannot be created", {"gather", "--out=/proc/o.npy", "a.npy", "b.npy"});
  std::filesystem::create_symlink("/dev/null", folder() / "null.npy");
  std::filesystem::create_directory(folder() / "locked");
  chmod((folder() / "locked").c_str(), 0500);
  if (geteuid() != 0) {
    Fails(1, "locked/o.npy: cannot be created: Permission denied",
          {"gather", "--out=locked/o.npy", "a.npy", "b.npy"});
  }
}

TEST_F(MergeTest, FoldersOfAll) {
  folder().Write("file", "x");
  Fails(1, "file: is no folder; --all writes a file for each rank",
        {"gather", "--all", "--out=file", "a.npy", "b.npy"});
  Fails(1, "none/x: cannot be made a folder: No such file or directory",
        {"gather", "--all", "--out=none/x", "a.npy", "b.npy"});
  folder().Write("c.npy", NpyFile("<f4", "(3, 1)", Bytes<float>({1, 2, 3})));
  Fails(1, "c.npy", {"gather", "--all", "--out=results", "a.npy", "c.npy"});
}

TEST_F(MergeTest, OutputsThatAreInputs) {
  Fails(1, "b.npy: the output would replace the input of rank 1 (b.npy); choose another --out",
        {"gather", "--out=b.npy", "--force", "a.npy", "b.npy"});
  std::filesystem::create_hard_link(folder() / "b.npy", folder() / "hard.npy");
  std::filesystem::create_symlink("b.npy", folder() / "soft.npy");
  for (const std::string name : {"hard.npy", "soft.npy", "./b.npy"}) {
    Fails(1, name + ": the output would replace the input of rank 1",
          {"gather", "--out=" + name, "--force", "a.npy", "b.npy"});
  }
  std::filesystem::create_directory(folder() / "d");
  std::filesystem::create_hard_link(folder() / "a.npy", folder() / "d/rank1.npy");
  Fails(1, "d/rank1.npy: the output would replace the input of rank 0",
        {"gather", "--all", "--out=d", "--force", "a.npy", "b.npy"});
}

TEST_F(MergeTest, NoSpace) {
  folder().Write("big.npy", NpyFile("|u1", "(2000000,)", std::string(2000000, 'x')));
  const RunOptions little = {.largest_file = 1 << 20};  // the sanitizers want a few files too
  Fails(1, "mp gather: o.npy: cannot reserve 4000128 bytes: File too large",
        {"gather", "--out=o.npy", "big.npy", "big.npy"}, little);
  folder().Write("old.npy", "old");
  Fails(1, "mp reduce: old.npy: cannot reserve 2000128 bytes: File too large",
        {"reduce", "--out=old.npy", "--force", "big.npy", "big.npy"}, little);
  // The folder that was made goes with the failure.
  Fails(1, "results/rank0.npy: cannot reserve 4000128 bytes",
        {"gather", "--all", "--out=results", "big.npy", "big.npy"}, little);
}

TEST_F(MergeTest, BackendsByName) {
  Succeeds({"gather", "--backend=host", "--out=o.npy", "a.npy", "b.npy"});
  Succeeds({"gather", "--backend=auto", "--out=p.npy", "a.npy", "b.npy"});
}

}  // namespace
}  // namespace mp::command
