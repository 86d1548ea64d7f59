#include "mp/chrome_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mp {
namespace {

using Json = nlohmann::ordered_json;

// Takes a piece of the text; false where it cannot.
using Sink = std::function<bool(absl::string_view)>;

// One event a line.
class Printer {
 public:
  Printer(const Trace& trace, const Sink& sink) : worlds_(trace.worlds()), sink_(sink) {
    start_ = absl::InfiniteDuration();
    for (const WorldTrace* world : worlds_) start_ = std::min(start_, world->start());
  }

  bool Print() {
    Put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (size_t i = 0; i < worlds_.size(); ++i) PrintWorld(*worlds_[i], i + 1);
    Put("\n]}\n");
    return ok_;
  }

 private:
  void PrintWorld(const WorldTrace& world, size_t process) {
    std::vector<const Track*> tracks = world.tracks();
    std::stable_sort(tracks.begin(), tracks.end(),
                     [](const Track* a, const Track* b) { return a->rank() < b->rank(); });
    bool named = false;
    for (size_t i = 0; i < tracks.size() && ok_; ++i) {
      const std::vector<Span> spans = tracks[i]->spans();
      if (spans.empty()) continue;
      if (!std::exchange(named, true)) {
        PrintMetadata("process_name", process, 0, {{"name", world.name()}});
        PrintMetadata("process_sort_index", process, 0, {{"sort_index", process}});
      }
      const std::string name = absl::StrCat("rank ", tracks[i]->rank(), ": ", tracks[i]->name());
      PrintMetadata("thread_name", process, i + 1, {{"name", name}});
      PrintMetadata("thread_sort_index", process, i + 1, {{"sort_index", i + 1}});
      for (const Span& span : spans) PrintSpan(span, process, i + 1);
    }
  }

  void PrintMetadata(const char* name, size_t process, size_t thread, Json args) {
    PrintEvent({{"name", name},
                {"ph", "M"},
                {"pid", process},
                {"tid", thread},
                {"args", std::move(args)}});
  }

  void PrintSpan(const Span& span, size_t process, size_t thread) {
    Json event = {{"name", absl::StrCat(span.name, span.dropped ? " (dropped)" : "")},
                  {"cat", span.region == nullptr ? "compute" : "operation"},
                  {"ph", "X"},
                  {"ts", Microseconds(span.begin - start_)},
                  {"dur", Microseconds(span.end - span.begin)},
                  {"pid", process},
                  {"tid", thread}};
    if (span.region != nullptr) {
      Json args = {{"region", *span.region},
                   {"sequence", span.sequence},
                   {"bytes", span.bytes},
                   {"wait_us", Microseconds(span.ready - span.begin)}};
      if (span.steps != 1) args["steps"] = span.steps;
      event["args"] = std::move(args);
    }
    PrintEvent(event);
  }

  void PrintEvent(const Json& event) {
    Put(absl::StrCat(std::exchange(first_, false) ? "\n" : ",\n",
                     event.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }

  // With three decimals at most.
  static double Microseconds(absl::Duration duration) {
    return static_cast<double>(absl::ToInt64Nanoseconds(duration)) / 1000;
  }

  void Put(absl::string_view text) { ok_ = ok_ && sink_(text); }

  const std::vector<const WorldTrace*> worlds_;
  const Sink& sink_;
  absl::Duration start_;
  bool first_ = true;
  bool ok_ = true;
};

}  // namespace

absl::Status WriteChromeTrace(const Trace& trace, const std::string& path) {
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(
        error, absl::StrCat(absl::Utf8SafeCEscape(path), ": the trace cannot be written"));
  };
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return failed(errno);
  const Sink sink = [file](absl::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), file) == text.size();
  };
  int error = Printer(trace, sink).Print() ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : failed(error);
}

std::string ChromeTraceText(const Trace& trace) {
  std::string text;
  const Sink sink = [&text](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return true;
  };
  static_cast<void>(Printer(trace, sink).Print());
  return text;
}

}  // namespace mp
