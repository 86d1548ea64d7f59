#include "tools/cases/tally.h"

#include <cstddef>
#include <cstdlib>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/cases/report.h"

namespace mp::cases {
namespace {

using nlohmann::json;

// What the events say of one target.
struct Target {
  std::string kind;  // "cc_test rule"
  bool is_test = false;
  bool is_left_out = false;  // not for this platform
  bool is_built = false;
  // The last attempt of each run and shard.
  std::map<std::pair<int, int>, json> results;
};

struct Events {
  std::map<std::string, Target> targets;
  std::string verdict;  // the name of Bazel's exit code, empty while it has not come
  bool is_damaged = false;
};

std::string DecodeUri(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  if (uri.starts_with(kScheme)) uri.remove_prefix(kScheme.size());
  std::string path;
  for (std::size_t i = 0; i < uri.size(); ++i) {
    if (uri[i] == '%' && i + 2 < uri.size()) {
      path +=
          static_cast<char>(std::strtol(std::string(uri.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      path += uri[i];
    }
  }
  return path;
}

void ReadEvent(const json& event, Events& all) {
  const json& id = event.at("id");
  if (id.contains("targetConfigured") && event.contains("configured")) {
    Target& target = all.targets[id["targetConfigured"].at("label")];
    target.kind = event["configured"].value("targetKind", "");
    target.is_test = event["configured"].contains("testSize");
  } else if (id.contains("targetCompleted")) {
    Target& target = all.targets[id["targetCompleted"].at("label")];
    if (event.contains("completed")) target.is_built = event["completed"].value("success", false);
    if (event.contains("aborted")) {
      target.is_left_out = event["aborted"].value("reason", "") == "SKIPPED";
    }
  } else if (id.contains("testResult")) {
    const json& key = id["testResult"];
    Target& target = all.targets[key.at("label")];
    json& last = target.results[{key.value("run", 1), key.value("shard", 1)}];
    const int attempt = key.value("attempt", 1);
    if (last.is_null() || last.at("attempt") < attempt) {
      last = event.value("testResult", json::object());
      last["attempt"] = attempt;
    }
  } else if (id.contains("buildFinished")) {
    all.verdict = event.at("finished").at("exitCode").at("name");
  }
}

Events ReadAll(std::istream& stream) {
  Events all;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    try {
      ReadEvent(json::parse(line), all);
    } catch (const json::exception&) {
      all.is_damaged = true;
    }
  }
  return all;
}

// Adds one report to `sum`, and says why it is worth nothing when it is.
std::string AddReport(const Target& target, const json& result, const FileReader& read_file,
                      Tally& sum) {
  std::optional<std::string> xml;
  for (const json& output : result.value("testActionOutput", json::array())) {
    if (output.value("name", "") == "test.xml") xml = read_file(DecodeUri(output.value("uri", "")));
  }
  const std::string status = result.value("status", "no status");
  if (!xml.has_value()) return "left no report: " + status;
  const Report report = ReadReport(*xml);
  if (target.kind == "cc_test rule" && !report.written_by_test) {
    return "ended before GoogleTest wrote its report: " + status;
  }
  sum.passed += report.passed;
  sum.failed += report.failed;
  // Say, a leak that was found after the last case.
  if (status != "PASSED" && report.failed == 0) return "failed outside its cases: " + status;
  return "";
}

// The cases of one target, at least one in all.
Tally TallyTarget(const Target& target, const FileReader& read_file) {
  Tally sum;
  if (target.is_left_out) return sum;
  if (!target.is_built) {
    sum.remarks.push_back("did not build");
  } else if (target.is_test && target.results.empty()) {
    sum.remarks.push_back("did not run");
  } else if (target.is_test) {
    for (const auto& [run_and_shard, result] : target.results) {
      std::string remark = AddReport(target, result, read_file, sum);
      if (!remark.empty()) sum.remarks.push_back(std::move(remark));
    }
    if (sum.passed + sum.failed == 0 && sum.remarks.empty()) sum.remarks.push_back("has no case");
  }
  sum.failed += static_cast<int>(sum.remarks.size());
  return sum;
}

}  // namespace

Tally ReadEvents(std::istream& events, const FileReader& read_file) {
  const Events all = ReadAll(events);
  Tally tally;
  for (const auto& [label, target] : all.targets) {
    const Tally of_target = TallyTarget(target, read_file);
    tally.passed += of_target.passed;
    tally.failed += of_target.failed;
    for (const std::string& remark : of_target.remarks) {
      tally.remarks.push_back(label + " " + remark);
    }
  }
  const auto fail = [&tally](std::string remark) {
    ++tally.failed;
    tally.remarks.push_back(std::move(remark));
  };
  if (all.is_damaged) fail("an event cannot be read");
  if (all.verdict.empty()) {
    fail("Bazel did not finish");
  } else if (all.verdict != "SUCCESS" && tally.failed == 0) {
    fail("Bazel says " + all.verdict);
  }
  if (tally.passed + tally.failed == 0) fail("there was no case");
  return tally;
}

}  // namespace mp::cases
