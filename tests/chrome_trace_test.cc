// Shows what the file holds, by reading it back: exact events of a trace made by hand, threads in
// rank order, Worlds apart, names with anything in them, what is left out; the errors of writing;
// and of a real run, that the file tells the same as the trace.

#include "mp/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<Json> EventsIn(const std::string& text) {
  const Json file = Json::parse(text);  // a throw fails the test
  return file.at("traceEvents").get<std::vector<Json>>();
}
std::vector<Json> EventsOf(const Trace& trace) { return EventsIn(ChromeTraceText(trace)); }

absl::Duration Ns(int64_t n) { return absl::Nanoseconds(n); }

Span Compute(absl::string_view name, int64_t begin, int64_t end) {
  Span span;
  span.name = name;
  span.begin = span.ready = Ns(begin);
  span.end = Ns(end);
  return span;
}

Span AllReduce(const std::string* region, int64_t begin, int64_t ready, int64_t end) {
  Span span = Compute("AllReduce", begin, end);
  span.kind = SpanKind::kAllReduce;
  span.ready = Ns(ready);
  span.region = region;
  span.sequence = 7;
  span.bytes = 4096;
  return span;
}

TEST(ChromeTrace, AnEventIsWhatTheViewersExpect) {
  sync::FakeClock clock;
  clock.Advance(Ns(1000));
  Trace trace;
  WorldTrace& world = trace.NewWorld("layer", clock);
  Track& track = world.NewTrack(0, "comm");
  const std::string* region = world.NewRegion("world");
  track.Add(Compute("MatMul", 1000, 1001));
  track.Add(AllReduce(region, 2500, 3250, 1'234'568'891));
  Span batch = AllReduce(region, 0, 0, 0);
  batch.begin = batch.ready = batch.end = absl::Hours(24 * 365);
  batch.steps = 3;
  track.Add(batch);
  Span dropped = AllReduce(region, 5000, 6000, 6000);
  dropped.dropped = true;
  track.Add(dropped);
  const std::string operation = "'cat':'operation','ph':'X',";
  const std::string args = "'args':{'region':'world','sequence':7,'bytes':4096,'wait_us':";
  const std::string expected = absl::StrCat(
      "{'displayTimeUnit':'ns','traceEvents':[\n"
      "{'name':'process_name','ph':'M','pid':1,'tid':0,'args':{'name':'layer'}},\n"
      "{'name':'process_sort_index','ph':'M','pid':1,'tid':0,'args':{'sort_index':1}},\n"
      "{'name':'thread_name','ph':'M','pid':1,'tid':1,'args':{'name':'rank 0: comm'}},\n"
      "{'name':'thread_sort_index','ph':'M','pid':1,'tid':1,'args':{'sort_index':1}},\n"
      "{'name':'MatMul','cat':'compute','ph':'X','ts':0.0,'dur':0.001,'pid':1,'tid':1},\n",
      "{'name':'AllReduce',", operation, "'ts':1.5,'dur':1234566.391,'pid':1,'tid':1,", args,
      "0.75}},\n{'name':'AllReduce',", operation,
      "'ts':31535999999999.0,'dur':0.0,'pid':1,'tid':1,", args,
      "0.0,'steps':3}},\n{'name':'AllReduce (dropped)',", operation,
      "'ts':4.0,'dur':1.0,'pid':1,'tid':1,", args, "1.0}}\n]}\n");
  EXPECT_EQ(absl::StrReplaceAll(ChromeTraceText(trace), {{"\"", "'"}}), expected);
}

TEST(ChromeTrace, ThreadsAreInRankOrderAndEmptyOnesLeftOut) {
  sync::FakeClock clock;
  Trace trace;
  trace.NewWorld("failed", clock);
  trace.NewWorld("idle", clock).NewTrack(0, "compute stream");
  WorldTrace& world = trace.NewWorld("third", clock);
  for (const int rank : {2, 0, 1})
    world.NewTrack(rank, "compute stream").Add(Compute("a", 0, rank));
  world.NewTrack(0, "idle");
  world.NewTrack(0, "comm").Add(Compute("b", 0, 9));
  trace.NewWorld("fourth", clock).NewTrack(0, "compute stream").Add(Compute("c", 0, 8));
  std::map<std::pair<int, int>, std::string> names;
  std::map<std::pair<int, int>, int> order;
  std::map<int, std::string> processes;
  std::vector<std::string> spans;
  for (const Json& event : EventsOf(trace)) {
    const std::pair<int, int> thread = {event.at("pid"), event.at("tid")};
    const std::string name = event.at("name");
    if (name == "process_name") processes[thread.first] = event.at("args").at("name");
    if (name == "thread_name") names[thread] = event.at("args").at("name");
    if (name == "thread_sort_index") order[thread] = event.at("args").at("sort_index");
    if (event.at("ph") == "X") spans.push_back(absl::StrCat(names.at(thread), " ", name));
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{3, "third"}, {4, "fourth"}}));
  EXPECT_THAT(spans,
              ElementsAre("rank 0: compute stream a", "rank 0: comm b", "rank 1: compute stream a",
                          "rank 2: compute stream a", "rank 0: compute stream c"));
  EXPECT_EQ(order.size(), 5u);
  EXPECT_EQ(names.size(), 5u);
  int last = 0;
  for (const auto& [thread, index] : order) {  // by pid and tid
    if (thread.first != 3) continue;
    EXPECT_GT(index, std::exchange(last, index));
  }
}

TEST(ChromeTrace, TimesOfSeveralWorldsAreOnOneLine) {
  sync::FakeClock clock;
  clock.Advance(Ns(5000));
  Trace trace;
  WorldTrace& first = trace.NewWorld("", clock);
  clock.Advance(Ns(2000));
  WorldTrace& second = trace.NewWorld("", clock);
  second.NewTrack(0, "s").Add(Compute("b", 8000, 8000));
  first.NewTrack(0, "s").Add(Compute("a", 6000, 6000));
  std::map<std::string, double> begins;
  for (const Json& event : EventsOf(trace)) {
    if (event.at("ph") == "X") begins[event.at("name")] = event.at("ts");
  }
  EXPECT_EQ(begins, (std::map<std::string, double>{{"a", 1}, {"b", 3}}));
}

TEST(ChromeTrace, WithoutAnythingItIsAFileStill) {
  EXPECT_TRUE(EventsOf(Trace()).empty());
  sync::FakeClock clock;
  Trace totals_only(TraceOptions{.keep_spans = false});
  totals_only.NewWorld("", clock).NewTrack(0, "s").Add(Compute("a", 0, 1));
  EXPECT_TRUE(EventsOf(totals_only).empty());
}

TEST(ChromeTrace, AnyNameIsWritten) {
  const struct {
    std::string name, read;
  } cases[] = {
      {"two \"quotes\" \\ and a slash", "two \"quotes\" \\ and a slash"},
      {std::string("line\nbreak\ttab\r\x01 nul:\0.", 22),
       std::string("line\nbreak\ttab\r\x01 nul:\0.", 22)},
      {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"bad \xff\xfe end", "bad \xef\xbf\xbd\xef\xbf\xbd end"},
      {"cut \xe2\x82", "cut \xef\xbf\xbd"},
      {"</script>", "</script>"},
      {"", ""},
  };
  for (const auto& it : cases) {
    sync::FakeClock clock;
    Trace trace;
    WorldTrace& world = trace.NewWorld(absl::StrCat("w", it.name), clock);
    Span span = AllReduce(world.NewRegion(it.name), 0, 0, 1);
    span.name = it.name;
    world.NewTrack(4, it.name).Add(span);
    const std::string text = ChromeTraceText(trace);
    const std::vector<Json> events = EventsIn(text);
    ASSERT_EQ(events.size(), 5u) << it.read;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << "one event a line: " << it.read;
    EXPECT_EQ(events[0].at("args").at("name"), absl::StrCat("w", it.read));
    EXPECT_EQ(events[2].at("args").at("name"), absl::StrCat("rank 4: ", it.read));
    EXPECT_EQ(events[4].at("name"), it.read);
    EXPECT_EQ(events[4].at("args").at("region"), it.read);
  }
}

// --- the file ------------------------------------------------------------------------------------

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// More than stdio holds back, where `count` is large.
void Fill(Trace& trace, int count) {
  static sync::FakeClock clock;
  Track& track = trace.NewWorld("", clock).NewTrack(0, "s");
  for (int i = 0; i < count; ++i) track.Add(Compute("a", i, i + 1));
}

TEST(ChromeTrace, AFileIsReplaced) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/trace.json");
  Trace large, small;
  Fill(large, 5000);
  Fill(small, 1);
  for (const Trace* trace : {&large, &small}) {
    EXPECT_OK(WriteChromeTrace(*trace, path));
    EXPECT_EQ(ReadFile(path), ChromeTraceText(*trace));
  }
}

TEST(ChromeTrace, AFileThatCannotBeWrittenIsNamed) {
  Trace large, small;
  Fill(large, 5000);
  Fill(small, 1);
  const std::string nowhere = absl::StrCat(::testing::TempDir(), "/no such folder/trace.json");
  for (const Trace* trace : {&large, &small}) {
    const absl::Status missing = WriteChromeTrace(*trace, nowhere);
    EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
    EXPECT_THAT(missing.message(), HasSubstr(nowhere));
    EXPECT_THAT(missing.message(), HasSubstr("No such file or directory"));
    const absl::Status full = WriteChromeTrace(*trace, "/dev/full");
    EXPECT_THAT(full.message(), HasSubstr("/dev/full"));
    EXPECT_THAT(full.message(), HasSubstr("No space left on device"));
  }
  EXPECT_THAT(WriteChromeTrace(small, ::testing::TempDir()).message(), HasSubstr("Is a directory"));
  EXPECT_FALSE(WriteChromeTrace(small, "").ok());
  EXPECT_THAT(WriteChromeTrace(small, "/no\nsuch/a").message(), HasSubstr("/no\\nsuch/"));
}

// --- a run ---------------------------------------------------------------------------------------

struct Half {
  static constexpr char kName[] = "Half";
  TensorView x;
  void operator()() const {
    for (int i = 0; i < 64; ++i) static_cast<float*>(x.data())[i] /= 2;
  }
};

// What every rank's compute stream shows of `rounds` rounds of the program below.
std::vector<std::string> ExpectedNames(int rounds) {
  std::vector<std::string> names;
  for (int i = 0; i < rounds; ++i) {
    names.insert(names.end(), {"Half", "AllReduce", "Gather"});
  }
  return names;
}

TEST(ChromeTrace, OfARunTellsWhatTheTraceTells) {
  constexpr int kRanks = 3, kRounds = 20;
  auto trace = std::make_shared<Trace>();
  auto world = World::Create(host::NewBackend({.devices = kRanks}).value(),
                             {.trace = trace, .name = "the \"run\""})
                   .value();
  EXPECT_OK(world->Run([](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(Buffer x, rank.device().Allocate(DType::kF32, {64}));
    MP_ASSIGN_OR_RETURN(Buffer full, rank.device().Allocate(DType::kF32, {64 * kRanks}));
    std::fill_n(static_cast<float*>(x.data()), 64, 1.0f);
    for (int i = 0; i < kRounds; ++i) {
      MP_RETURN_IF_ERROR(rank.stream().Launch(Half{x.view()}));
      MP_RETURN_IF_ERROR(rank.region().AllReduce(x.view()));
      MP_RETURN_IF_ERROR(
          rank.region().Gather(x.view(), rank.id() == 1 ? full.view() : TensorView(), /*root=*/1));
    }
    return rank.stream().Synchronize();
  }));
  std::map<int, std::vector<std::string>> names;      // by thread
  std::map<int, double> compute, all_reduce, gather;  // by thread, in microseconds
  std::map<int, int> parts;                           // by sequence number
  for (const Json& event : EventsOf(*trace)) {
    const int thread = event.at("tid");
    if (event.at("name") == "process_name") {
      EXPECT_EQ(event.at("args").at("name"), "the \"run\"");
    }
    if (event.at("ph") != "X") continue;
    names[thread].push_back(event.at("name"));
    const double duration = event.at("dur");
    if (event.at("name") == "AllReduce") all_reduce[thread] += duration;
    if (event.at("name") == "Gather") gather[thread] += duration;
    if (event.at("cat") == "compute") {
      compute[thread] += duration;
      EXPECT_FALSE(event.contains("args"));
      continue;
    }
    ++parts[event.at("args").at("sequence")];
    EXPECT_EQ(event.at("args").at("bytes"), 256);
    EXPECT_EQ(event.at("args").at("region"), "world");
    EXPECT_GE(event.at("args").at("wait_us"), 0);
    EXPECT_LE(event.at("args").at("wait_us"), duration);
  }
  ASSERT_EQ(names.size(), static_cast<size_t>(kRanks));
  int rank = 0;
  for (const auto& [thread, ran] : names) {
    EXPECT_EQ(ran, ExpectedNames(kRounds));
    const TraceTotals totals = trace->TotalsOf(rank++);
    EXPECT_NEAR(compute[thread], absl::ToDoubleMicroseconds(totals.compute), 1e-3);
    EXPECT_NEAR(all_reduce[thread], absl::ToDoubleMicroseconds(totals.all_reduce), 1e-3);
    EXPECT_NEAR(gather[thread], absl::ToDoubleMicroseconds(totals.gather), 1e-3);
  }
  EXPECT_EQ(parts.size(), 2u * kRounds);
  for (const auto& [sequence, count] : parts) EXPECT_EQ(count, kRanks) << sequence;
}

RecentOperation Recent(int rank, uint64_t sequence, int64_t posted) {
  RecentOperation operation;
  operation.rank = rank;
  operation.region = "tensor";
  operation.sequence = sequence;
  operation.name = "Gather";
  operation.bytes = 12;
  operation.posted = Ns(posted);
  operation.agreed = operation.issued = operation.completed = absl::InfiniteDuration();
  return operation;
}

TEST(ChromeTrace, TheLastOperationsOfRanksAreBeginningsAndEnds) {
  std::vector<RecentOperation> recent = {Recent(0, 3, 1000), Recent(0, 4, 2500), Recent(2, 3, 500)};
  recent[0].agreed = recent[0].issued = Ns(4000);
  recent[0].completed = Ns(6001);
  recent[1].dropped = true;
  recent[2].steps = 2;
  recent[2].agreed = Ns(4000);
  const std::vector<Json> events = EventsIn(ChromeTraceText(recent));
  ASSERT_EQ(events.size(), 10u);  // two names and places, three beginnings and ends
  EXPECT_EQ(events[0]["args"]["name"], "rank 0");
  EXPECT_EQ(events[2], Json::parse(R"({"name":"Gather","cat":"operation","ph":"b","id":1,"ts":1.0,
      "pid":1,"tid":1,"args":{"region":"tensor","sequence":3,"bytes":12,"agreed":4.0,"issued":4.0,
      "completed":6.001}})"));
  EXPECT_EQ(events[3], Json::parse(R"({"name":"Gather","cat":"operation","ph":"e","id":1,
      "ts":6.001,"pid":1,"tid":1})"));
  EXPECT_EQ(events[4]["name"], "Gather (dropped)");
  EXPECT_EQ(events[4]["ts"], 2.5);
  EXPECT_EQ(events[5]["ts"], 2.5);
  EXPECT_FALSE(events[4]["args"].contains("agreed"));
  EXPECT_EQ(events[6]["args"]["name"], "rank 2");
  EXPECT_EQ(events[8]["tid"], 3);
  EXPECT_EQ(events[8]["args"]["steps"], 2);
  EXPECT_EQ(events[9]["ts"], 4.0);
  EXPECT_TRUE(EventsIn(ChromeTraceText(absl::Span<const RecentOperation>())).empty());
}

}  // namespace
}  // namespace mp::test
