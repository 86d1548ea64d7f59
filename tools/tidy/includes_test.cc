// Proves each rule about includes on a file that keeps it and one that breaks it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"
#include "tools/tidy/testing.h"

namespace mp::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> Including(Findings (*check)(const Tree&), const std::string& path,
                                   const std::string& included) {
  return FindingsIn(check, {path, {"// A file.", "#include \"" + included + "\""}});
}

TEST(LayersTest, AllowsWhatLiesBelowOrBeside) {
  for (const auto& [path, included] : std::vector<std::pair<std::string, std::string>>{
           {"mp/tensor.h", "mp/base/status.h"},
           {"mp/tensor.h", "mp/dtype.h"},
           {"mp/stream.h", "mp/event.h"},
           {"mp/host/stream.cc", "mp/backend.h"},
           {"mp/host/stream.cc", "mp/host/executor.h"},
           {"mp/region.cc", "mp/backend.h"},
           {"mp/world.h", "mp/region.h"},
           {"mp/command/perf.cc", "mp/cuda/backend.h"},
           {"mp/base/status.h", "absl/status/status.h"},
           {"tests/region_test.cc", "mp/host/backend.h"},
       }) {
    EXPECT_THAT(Including(CheckLayers, path, included), IsEmpty()) << path << " " << included;
  }
}

TEST(LayersTest, RefusesWhatLiesAbove) {
  EXPECT_THAT(Including(CheckLayers, "mp/base/status.h", "mp/tensor.h"),
              ElementsAre("2: includes mp/tensor.h: it lies above"));
  EXPECT_THAT(Including(CheckLayers, "mp/stream.h", "mp/communicator.h"), SizeIs(1));
  EXPECT_THAT(Including(CheckLayers, "mp/host/stream.cc", "mp/region.h"), SizeIs(1));
  EXPECT_THAT(Including(CheckLayers, "mp/world.cc", "mp/command/perf.h"), SizeIs(1));
}

TEST(LayersTest, RefusesABackendAboveTheSeamAndBesideAnother) {
  EXPECT_THAT(
      Including(CheckLayers, "mp/region.cc", "mp/host/backend.h"),
      ElementsAre(StartsWith("2: includes mp/host/backend.h: a backend is handed in by the")));
  EXPECT_THAT(Including(CheckLayers, "mp/world.cc", "mp/cuda/backend.h"), SizeIs(1));
  EXPECT_THAT(Including(CheckLayers, "mp/cuda/nccl.cc", "mp/host/stream.h"), SizeIs(1));
}

TEST(LayersTest, RefusesTestsAndToolsInWhatIsShipped) {
  EXPECT_THAT(Including(CheckLayers, "mp/region.cc", "tests/support/clock.h"), SizeIs(1));
  EXPECT_THAT(Including(CheckLayers, "mp/command/perf.cc", "tools/tidy/rules.h"), SizeIs(1));
}

TEST(CudaHeadersTest, AllowsThemWhereCudaIs) {
  for (const char* path : {"mp/cuda/status.h", "tests/fake/cudart.cc", "tests/cuda/a_test.cc"}) {
    EXPECT_THAT(Including(CheckCudaHeaders, path, "cuda_runtime.h"), IsEmpty());
  }
  EXPECT_THAT(Including(CheckCudaHeaders, "mp/command/info.cc", "mp/cuda/backend.h"), IsEmpty());
}

TEST(CudaHeadersTest, RefusesThemElsewhere) {
  EXPECT_THAT(Including(CheckCudaHeaders, "mp/command/info.cc", "cuda_runtime_api.h"), SizeIs(1));
  EXPECT_THAT(Including(CheckCudaHeaders, "tests/region_test.cc", "nccl.h"), SizeIs(1));
}

TEST(ThreadsTest, AllowsThemWhereTheyAreMade) {
  for (const char* path :
       {"mp/base/sync.h", "tests/base/sync_test.cc", "tests/support/a.cc", "tests/fake/a.cc"}) {
    EXPECT_THAT(FindingsIn(CheckThreads, {path, {"#include <mutex>", "thread_local int a;"}}),
                IsEmpty());
  }
  EXPECT_THAT(Including(CheckThreads, "mp/region.cc", "mp/base/sync.h"), IsEmpty());
  EXPECT_THAT(Including(CheckThreads, "mp/region.cc", "absl/time/time.h"), IsEmpty());
}

TEST(ThreadsTest, RefusesThemElsewhere) {
  for (const char* header : {"thread", "atomic", "chrono", "linux/futex.h",
                             "absl/synchronization/mutex.h", "absl/time/clock.h"}) {
    EXPECT_THAT(Including(CheckThreads, "mp/region.cc", header), SizeIs(1)) << header;
  }
  EXPECT_THAT(Including(CheckThreads, "tests/region_test.cc", "thread"), SizeIs(1));
}

TEST(ThreadsTest, RefusesTheKeywordButNotItsMention) {
  EXPECT_THAT(FindingsIn(CheckThreads, {"mp/a.cc", {"int b;", "static thread_local int a;"}}),
              ElementsAre(StartsWith("2: ")));
  EXPECT_THAT(FindingsIn(CheckThreads, {"mp/a.cc", {"int a;  // not thread_local"}}), IsEmpty());
}

}  // namespace
}  // namespace mp::tidy
