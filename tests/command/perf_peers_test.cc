// Finding peers, asking them, and understanding what they say.
#include "mp/command/perf_peers.h"

#include <sys/stat.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"
#include "tests/support/status_matchers.h"

namespace mp::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class PeersTest : public ::testing::Test {
 protected:
  Peer Make(const std::string& name, const std::string& body) {
    const std::string path = folder_.Write(name, "#!/bin/sh\n" + body + "\n");
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    return {name, path};
  }
  absl::Status Told(const std::string& body) { return RunPeer(Make("peer", body), task_).status(); }

  files::TempFolder folder_;
  PeerTask task_ = {.op = "allreduce", .ranks = 3, .rows = 7, .seconds = 0.5, .sizes = {8, 64}};
};

TEST_F(PeersTest, AreTheProgramsOfAFolderByName) {
  Make("b", "");
  Make("a", "");
  folder_.Write("notes.txt", "no program");
  EXPECT_EQ(mkdir((folder_.path() + "/more").c_str(), 0700), 0);
  folder_.Write("more/c", "no program either");
  const auto found = FindPeers(folder_.path()).value();
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].name, "b");
  EXPECT_TRUE(absl::IsNotFound(FindPeers(folder_.path() + "/more").status()));
  EXPECT_TRUE(absl::IsNotFound(FindPeers(folder_.path() + "/none").status()));
}

TEST_F(PeersTest, AreAskedForAllSizesAtOnce) {
  const Peer peer = Make("it's one",
                         "test \"$*\" = 'allreduce 3 7 0.5 8 64' || exit 1\n"
                         "echo a warning >&2; echo 8 1.5 2; echo '64   2e3 1e4 '");
  EXPECT_THAT(RunPeer(peer, task_).value(), ElementsAre(Pair(8, 1.5), Pair(64, 2000)));
}

TEST_F(PeersTest, MayStopBeforeTheLastSize) {
  EXPECT_THAT(RunPeer(Make("peer", "echo 8 1 2; exit 1"), task_).value(), ElementsAre(Pair(8, 1)));
}

TEST_F(PeersTest, ThatSayNothingOfUseAreErrors) {
  EXPECT_THAT(Told("echo first; echo last words >&2; exit 5").message(),
              HasSubstr("status 5 and no time; it said: last words"));
  EXPECT_THAT(Told("echo 8 -1 2").message(), HasSubstr("it said: 8 -1 2"));
  EXPECT_THAT(Told("echo 8 1").message(), HasSubstr("it said: 8 1"));
  EXPECT_THAT(Told("kill -9 $$").message(), HasSubstr("status 137"));
  EXPECT_THAT(Told("echo 9 1 1").message(), HasSubstr("9 bytes unasked"));
}

TEST(MedianOf, IsTheMiddleOrBetweenTheTwo) {
  EXPECT_EQ(MedianOf({3}), 3);
  EXPECT_EQ(MedianOf({9, 1, 4}), 4);
  EXPECT_EQ(MedianOf({9, 1, 4, 2}), 3);
}

TEST(ProbeHop, IsATime) {
  const double hop = ProbeHop().value();
  EXPECT_GT(hop, 0);
  EXPECT_LT(hop, 1e6);
}

}  // namespace
}  // namespace mp::command
