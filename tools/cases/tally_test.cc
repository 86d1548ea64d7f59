// Proves that every way in which a target can go wrong is counted, on events as Bazel 4.2 writes
// them and reports that lie in a map.

#include "tools/cases/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace mp::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const char kGood[] = R"(<testcase name="A" classname="S" status="run" />)";
const char kBad[] = R"(<testcase name="B" classname="S"><failure/></testcase>)";
const char kGenerated[] = R"(<testcase name="t" status="run"></testcase>)";

// Events of a run, and the reports that it left.
class Log {
 public:
  // A target that is configured and completed.
  Log& Built(const std::string& label, const std::string& kind, bool success = true) {
    Add(R"({"id":{"targetConfigured":{"label":")" + label + R"("}},"configured":{"targetKind":")" +
        kind + " rule\"" + (kind.ends_with("_test") ? R"(,"testSize":"SMALL")" : "") + "}}");
    Add(R"({"id":{"targetCompleted":{"label":")" + label + R"("}},"completed":{)" +
        (success ? R"("success":true)" : "") + "}}");
    return *this;
  }

  Log& Ran(const std::string& label, const std::string& status, const std::string& xml,
           const std::string& key = R"("run":1,"shard":1,"attempt":1)") {
    const std::string path = "/logs/" + std::to_string(reports_.size()) + "+ x/test.xml";
    Add(R"({"id":{"testResult":{"label":")" + label + "\"," + key +
        R"(}},"testResult":{"testActionOutput":[{"name":"test.log","uri":"file:///l"},)" +
        R"({"name":"test.xml","uri":"file:///logs/)" + std::to_string(reports_.size()) +
        R"(%2B%20x/test.xml"}],"status":")" + status + "\"}}");
    reports_[path] = xml;
    return *this;
  }

  Log& Add(const std::string& event) {
    events_ += event + "\n";
    return *this;
  }

  Tally End(const std::string& verdict) {
    Add(R"({"id":{"buildFinished":{}},"finished":{"exitCode":{"name":")" + verdict + "\"}}}");
    return Cut();
  }

  Tally Cut() const {
    std::istringstream events(events_);
    return ReadEvents(events, [this](const std::string& path) -> std::optional<std::string> {
      const auto report = reports_.find(path);
      if (report == reports_.end() || report->second.empty()) return std::nullopt;
      return report->second;
    });
  }

 private:
  std::string events_;
  std::map<std::string, std::string> reports_;
};

void ExpectCounts(const Tally& tally, int passed, int failed) {
  EXPECT_EQ(tally.passed, passed);
  EXPECT_EQ(tally.failed, failed);
}

TEST(TallyTest, AddsUpTheCasesOfAllTargets) {
  const Tally tally = Log()
                          .Built("//a", "cc_test")
                          .Ran("//a", "PASSED", std::string(kGood) + kGood)
                          .Built("//b", "sh_test")
                          .Ran("//b", "PASSED", kGenerated)
                          .Built("//c", "cc_library")
                          .End("SUCCESS");
  ExpectCounts(tally, 3, 0);
  EXPECT_THAT(tally.remarks, IsEmpty());
}

TEST(TallyTest, AddsUpShards) {
  Log log;
  log.Built("//a", "cc_test");
  for (const char* shard : {"1", "2", "3"}) {
    log.Ran("//a", "PASSED", shard == std::string("3") ? "<testsuites/>" : kGood,
            std::string(R"("run":1,"attempt":1,"shard":)") + shard);
  }
  ExpectCounts(log.End("SUCCESS"), 2, 0);
}

TEST(TallyTest, CountsTheLastAttemptOnly) {
  const Tally tally = Log()
                          .Built("//a", "cc_test")
                          .Ran("//a", "FAILED", kBad, R"("run":1,"shard":1,"attempt":1)")
                          .Ran("//a", "PASSED", kGood, R"("run":1,"shard":1,"attempt":2)")
                          .End("SUCCESS");
  ExpectCounts(tally, 1, 0);
}

TEST(TallyTest, CountsAFailedCaseWithoutRemark) {
  const Tally tally = Log()
                          .Built("//a", "cc_test")
                          .Ran("//a", "FAILED", std::string(kGood) + kBad)
                          .End("TESTS_FAILED");
  ExpectCounts(tally, 1, 1);
  EXPECT_THAT(tally.remarks, IsEmpty());
}

TEST(TallyTest, CountsATargetWithoutACase) {
  const Tally tally =
      Log().Built("//a", "cc_test").Ran("//a", "PASSED", "<testsuites/>").End("SUCCESS");
  ExpectCounts(tally, 0, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("//a has no case"));
}

TEST(TallyTest, CountsATestThatEndsEarlyWithoutAnError) {
  const Tally tally = Log().Built("//a", "cc_test").Ran("//a", "PASSED", kGenerated).End("SUCCESS");
  ExpectCounts(tally, 0, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("//a ended before GoogleTest wrote its report: PASSED"));
}

TEST(TallyTest, CountsATimeOutAndAMissingReport) {
  const Tally tally = Log()
                          .Built("//a", "cc_test")
                          .Ran("//a", "TIMEOUT", kGenerated)
                          .Built("//b", "sh_test")
                          .Ran("//b", "TIMEOUT", "")
                          .End("TESTS_FAILED");
  ExpectCounts(tally, 0, 2);
  EXPECT_THAT(tally.remarks, ElementsAre("//a ended before GoogleTest wrote its report: TIMEOUT",
                                         "//b left no report: TIMEOUT"));
}

TEST(TallyTest, CountsAFailureOutsideTheCases) {
  const Tally tally = Log().Built("//a", "cc_test").Ran("//a", "FAILED", kGood).End("TESTS_FAILED");
  ExpectCounts(tally, 1, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("//a failed outside its cases: FAILED"));
}

TEST(TallyTest, CountsWhatDoesNotBuild) {
  const Tally tally =
      Log().Built("//a", "cc_test", false).Built("//b", "cc_library", false).End("BUILD_FAILURE");
  ExpectCounts(tally, 0, 2);
  EXPECT_THAT(tally.remarks, ElementsAre("//a did not build", "//b did not build"));
}

TEST(TallyTest, CountsWhatDoesNotRun) {
  const Tally tally = Log().Built("//a", "cc_test").End("BUILD_FAILURE");
  ExpectCounts(tally, 0, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("//a did not run"));
}

TEST(TallyTest, LeavesOutWhatIsNotForThisPlatform) {
  const Tally tally = Log()
                          .Built("//a", "cc_test")
                          .Ran("//a", "PASSED", kGood)
                          .Add(R"({"id":{"targetCompleted":{"label":"//b"}},)"
                               R"("aborted":{"reason":"SKIPPED"}})")
                          .End("SUCCESS");
  ExpectCounts(tally, 1, 0);
}

TEST(TallyTest, CountsATargetThatCannotBeAnalysed) {
  const Tally tally = Log()
                          .Add(R"({"id":{"targetCompleted":{"label":"//b"}},)"
                               R"("aborted":{"reason":"ANALYSIS_FAILURE"}})")
                          .End("PARSING_FAILURE");
  ExpectCounts(tally, 0, 1);
}

TEST(TallyTest, BelievesBazelWhenNoTargetFailed) {
  const Tally tally =
      Log().Built("//a", "cc_test").Ran("//a", "PASSED", kGood).End("PARSING_FAILURE");
  ExpectCounts(tally, 1, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("Bazel says PARSING_FAILURE"));
}

TEST(TallyTest, CountsARunWithoutAnEnd) {
  ExpectCounts(Log().Cut(), 0, 1);
  ExpectCounts(Log().Built("//a", "cc_test").Ran("//a", "PASSED", kGood).Cut(), 1, 1);
  ExpectCounts(Log().Add("{\"id\":").Cut(), 0, 2);
}

TEST(TallyTest, CountsARunWithoutATest) {
  const Tally tally = Log().Built("//c", "cc_library").End("SUCCESS");
  ExpectCounts(tally, 0, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("there was no case"));
}

}  // namespace
}  // namespace mp::cases
