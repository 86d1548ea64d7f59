// Proves that a report is counted case by case, on reports of both writers and on text that a test
// has printed to look like one.

#include "tools/cases/report.h"

#include <gtest/gtest.h>

#include <string>

namespace mp::cases {
namespace {

// As GoogleTest 1.12 writes them.
std::string Case(const std::string& attributes, const std::string& content) {
  return R"(<testcase name="A" classname="S" )" + attributes + ">" + content + "</testcase>\n";
}
const char kCompleted[] = R"(status="run" result="completed")";

TEST(ReportTest, CountsPassedCases) {
  const Report report =
      ReadReport(R"(<?xml version="1.0"?><testsuites tests="2"><testsuite>
      <testcase name="A" classname="S" status="run" />)" +
                 Case(kCompleted, "<properties><property name=\"a\"/></properties>"));
  EXPECT_EQ(report.passed, 2);
  EXPECT_EQ(report.failed, 0);
  EXPECT_TRUE(report.written_by_test);
}

TEST(ReportTest, CountsACaseOnceHoweverOftenItFailed) {
  const Report report =
      ReadReport(Case(kCompleted, "<failure message=\"a\"/>\n<failure message=\"b\"></failure>"));
  EXPECT_EQ(report.passed, 0);
  EXPECT_EQ(report.failed, 1);
}

TEST(ReportTest, CountsSkippedAndDisabledCasesAsFailed) {
  const Report report =
      ReadReport(Case(R"(status="run" result="skipped")", "<skipped message=\"no\"/>") +
                 R"(<testcase name="B" status="notrun" result="suppressed" classname="S" />)");
  EXPECT_EQ(report.passed, 0);
  EXPECT_EQ(report.failed, 2);
}

TEST(ReportTest, PassesOverWhatATestPrinted) {
  const Report report =
      ReadReport(Case(kCompleted,
                      "<failure><![CDATA[</failure></"
                      "testcase><testcase>]]>]]&gt;<![CDATA[<testcase/>]]></failure>"));
  EXPECT_EQ(report.passed, 0);
  EXPECT_EQ(report.failed, 1);
}

TEST(ReportTest, KnowsBazelsOwnReport) {
  const std::string head = R"(<testsuites><testsuite name="a"><testcase name="a" status="run">)";
  const std::string tail = "</testcase><system-out><![CDATA[<testcase>]]></system-out>";
  EXPECT_FALSE(ReadReport(head + tail).written_by_test);
  EXPECT_EQ(ReadReport(head + tail).passed, 1);
  EXPECT_EQ(ReadReport(head + "<error message=\"exited with error code 1\"></error>" + tail).failed,
            1);
}

TEST(ReportTest, CountsACutOffCaseAsFailed) {
  EXPECT_EQ(ReadReport(R"(<testcase name="A" classname="S">)").failed, 1);
}

TEST(ReportTest, FindsNothingInNothing) {
  for (const char* text : {"", "<", "<![CDATA[", "<testsuites tests=\"3\"></testsuites>"}) {
    EXPECT_EQ(ReadReport(text).passed + ReadReport(text).failed, 0) << text;
  }
}

}  // namespace
}  // namespace mp::cases
