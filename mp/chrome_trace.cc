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

// A list of events, one a line.
class EventList {
 public:
  explicit EventList(const Sink& sink) : sink_(sink) {
    Put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  }
  // Whether all of it could be written.
  bool End() {
    Put("\n]}\n");
    return ok_;
  }

  void PrintEvent(const Json& event) {
    Put(absl::StrCat(std::exchange(first_, false) ? "\n" : ",\n",
                     event.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  void PrintMetadata(const char* name, size_t process, size_t thread, Json args) {
    PrintEvent({{"name", name},
                {"ph", "M"},
                {"pid", process},
                {"tid", thread},
                {"args", std::move(args)}});
  }
  bool ok() const { return ok_; }

  // With three decimals at most.
  static double Microseconds(absl::Duration duration) {
    return static_cast<double>(absl::ToInt64Nanoseconds(duration)) / 1000;
  }

 private:
  void Put(absl::string_view text) { ok_ = ok_ && sink_(text); }

  const Sink& sink_;
  bool first_ = true;
  bool ok_ = true;
};

class TracePrinter : private EventList {
 public:
  TracePrinter(const Trace& trace, const Sink& sink) : EventList(sink), worlds_(trace.worlds()) {
    start_ = absl::InfiniteDuration();
    for (const WorldTrace* world : worlds_) start_ = std::min(start_, world->start());
  }

  bool Print() {
    for (size_t i = 0; i < worlds_.size(); ++i) PrintWorld(*worlds_[i], i + 1);
    return End();
  }

 private:
  void PrintWorld(const WorldTrace& world, size_t process) {
    std::vector<const Track*> tracks = world.tracks();
    std::stable_sort(tracks.begin(), tracks.end(),
                     [](const Track* a, const Track* b) { return a->rank() < b->rank(); });
    bool named = false;
    for (size_t i = 0; i < tracks.size() && ok(); ++i) {
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

  const std::vector<const WorldTrace*> worlds_;
  absl::Duration start_;
};

// What a rank posts ahead overlaps, so these are not events of a stack but a beginning and an end.
class RecentPrinter : private EventList {
 public:
  explicit RecentPrinter(const Sink& sink) : EventList(sink) {}

  bool Print(absl::Span<const RecentOperation> recent) {
    int rank = -1;
    for (size_t i = 0; i < recent.size(); ++i) {
      const auto thread = static_cast<size_t>(recent[i].rank) + 1;
      if (std::exchange(rank, recent[i].rank) != recent[i].rank) {
        PrintMetadata("thread_name", 1, thread, {{"name", absl::StrCat("rank ", recent[i].rank)}});
        PrintMetadata("thread_sort_index", 1, thread, {{"sort_index", thread}});
      }
      PrintOperation(recent[i], thread, i + 1);
    }
    return End();
  }

 private:
  void PrintOperation(const RecentOperation& operation, size_t thread, size_t id) {
    Json event = {{"name", absl::StrCat(operation.name, operation.dropped ? " (dropped)" : "")},
                  {"cat", "operation"},
                  {"ph", "b"},
                  {"id", id},
                  {"ts", Microseconds(operation.posted)},
                  {"pid", 1},
                  {"tid", thread}};
    Json end = event;
    end["ph"] = "e";
    Json args = {
        {"region", operation.region}, {"sequence", operation.sequence}, {"bytes", operation.bytes}};
    if (operation.steps != 1) args["steps"] = operation.steps;
    absl::Duration last = operation.posted;
    const auto tell = [&](const char* name, absl::Duration time) {
      if (time == absl::InfiniteDuration()) return;
      args[name] = Microseconds(time);
      last = std::max(last, time);
    };
    tell("agreed", operation.agreed);
    tell("issued", operation.issued);
    tell("completed", operation.completed);
    event["args"] = std::move(args);
    end["ts"] = Microseconds(last);
    PrintEvent(event);
    PrintEvent(end);
  }
};

using Print = std::function<bool(const Sink&)>;

absl::Status WriteFile(const Print& print, const std::string& path) {
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(
        error, absl::StrCat(absl::Utf8SafeCEscape(path), ": the trace cannot be written"));
  };
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return failed(errno);
  const Sink sink = [file](absl::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), file) == text.size();
  };
  int error = print(sink) ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : failed(error);
}

std::string TextOf(const Print& print) {
  std::string text;
  static_cast<void>(print([&text](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return true;
  }));
  return text;
}

Print PrintOf(const Trace& trace) {
  return [&trace](const Sink& sink) { return TracePrinter(trace, sink).Print(); };
}

Print PrintOf(absl::Span<const RecentOperation> recent) {
  return [recent](const Sink& sink) { return RecentPrinter(sink).Print(recent); };
}

}  // namespace

absl::Status WriteChromeTrace(const Trace& trace, const std::string& path) {
  return WriteFile(PrintOf(trace), path);
}

absl::Status WriteChromeTrace(absl::Span<const RecentOperation> recent, const std::string& path) {
  return WriteFile(PrintOf(recent), path);
}

std::string ChromeTraceText(const Trace& trace) { return TextOf(PrintOf(trace)); }

std::string ChromeTraceText(absl::Span<const RecentOperation> recent) {
  return TextOf(PrintOf(recent));
}

}  // namespace mp
