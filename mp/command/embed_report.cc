#include "mp/command/embed_report.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace mp::command {
namespace {

// Of a text beside a result.
constexpr size_t kTextBytes = 100;
constexpr size_t kColumnsShown = 3;

double SecondsPer(int64_t count, absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string Plural(int64_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string Share(absl::string_view name, absl::Duration part, absl::Duration whole) {
  const double percent = whole > absl::ZeroDuration() ? 100 * absl::FDivDuration(part, whole) : 0;
  return absl::StrFormat("%s %.3f s (%.0f%%)", name, absl::ToDoubleSeconds(part), percent);
}

std::string Oddities(const EncodedLines& lines) {
  std::string text;
  if (lines.empty > 0) absl::StrAppend(&text, ", ", lines.empty, " empty");
  if (lines.cut > 0) absl::StrAppend(&text, ", ", lines.cut, " cut at the model's limit");
  if (lines.invalid > 0) absl::StrAppend(&text, ", ", lines.invalid, " not UTF-8");
  return text;
}

}  // namespace

std::vector<Nearest> FindNearest(absl::Span<const float> rows, absl::Span<const float> query,
                                 size_t top) {
  std::vector<Nearest> all;
  for (size_t line = 0; line * query.size() < rows.size(); ++line) {
    const auto row = rows.subspan(line * query.size(), query.size());
    const double cosine = std::inner_product(row.begin(), row.end(), query.begin(), 0.0);
    all.push_back({line, static_cast<float>(cosine)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Nearest& a, const Nearest& b) { return a.cosine > b.cosine; });
  all.resize(std::min(top, all.size()));
  return all;
}

std::string EmbedReportText(const EmbedReport& report, const EncodedLines& lines) {
  const auto count = static_cast<int64_t>(lines.ids.size());
  const TraceTotals& totals = report.mean_of_ranks;
  return absl::StrCat(
      "mp embed: ", Plural(count, "sentence"), " (", Plural(lines.tokens, "token"), Oddities(lines),
      ") in ", absl::StrFormat("%.3f", absl::ToDoubleSeconds(report.elapsed)),
      " s: ", absl::StrFormat("%.0f", SecondsPer(count, report.elapsed)), " sentences/s on ",
      Plural(report.ranks, "rank"), " and ", Plural(report.threads, "thread"),
      "; a rank's time: ", Share("compute", totals.compute, report.elapsed), ", ",
      Share("AllReduce", totals.all_reduce, report.elapsed), ", ",
      Share("Gather", totals.gather, report.elapsed), "\n");
}

std::string NearestText(const std::vector<Nearest>& nearest,
                        const std::vector<absl::string_view>& lines) {
  std::string text;
  for (const Nearest& one : nearest) {
    absl::StrAppendFormat(&text, "%.4f  line %d: %s\n", one.cosine, one.line + 1,
                          Shown(lines[one.line], kTextBytes));
  }
  return text;
}

std::string RowsText(absl::Span<const float> rows, const std::vector<absl::string_view>& lines) {
  std::string text;
  const size_t hidden = lines.empty() ? 0 : rows.size() / lines.size();
  for (size_t line = 0; line < lines.size(); ++line) {
    absl::StrAppend(&text, line + 1, "  [");
    for (size_t i = 0; i < std::min(kColumnsShown, hidden); ++i) {
      absl::StrAppendFormat(&text, "%+.4f ", rows[line * hidden + i]);
    }
    absl::StrAppend(&text, "... ", hidden, " in all]  ", Shown(lines[line], kTextBytes), "\n");
  }
  return text;
}

std::string EmbedReportJson(const EmbedReport& report, const EncodedLines& encoded,
                            const std::vector<absl::string_view>& lines, const std::string& out,
                            const std::vector<Nearest>* nearest, absl::Span<const float> rows) {
  using Json = nlohmann::ordered_json;
  const auto count = static_cast<int64_t>(lines.size());
  Json json = {{"command", "embed"},
               {"backend", "host"},
               {"model", report.model},
               {"ranks", report.ranks},
               {"threads", report.threads},
               {"lines", count},
               {"empty", encoded.empty},
               {"cut", encoded.cut},
               {"invalid", encoded.invalid},
               {"tokens", encoded.tokens},
               {"load_seconds", absl::ToDoubleSeconds(report.load)},
               {"seconds", absl::ToDoubleSeconds(report.elapsed)},
               {"sentences_per_second", SecondsPer(count, report.elapsed)},
               {"compute_seconds", absl::ToDoubleSeconds(report.mean_of_ranks.compute)},
               {"all_reduce_seconds", absl::ToDoubleSeconds(report.mean_of_ranks.all_reduce)},
               {"gather_seconds", absl::ToDoubleSeconds(report.mean_of_ranks.gather)}};
  if (!out.empty()) json["out"] = out;
  if (nearest != nullptr) {
    json["nearest"] = Json::array();
    for (const Nearest& one : *nearest) {
      json["nearest"].push_back(
          {{"line", one.line + 1}, {"cosine", one.cosine}, {"text", std::string(lines[one.line])}});
    }
  } else if (out.empty()) {
    const size_t hidden = lines.empty() ? 0 : rows.size() / lines.size();
    json["embeddings"] = Json::array();
    for (size_t line = 0; line < lines.size(); ++line) {
      const auto row = rows.subspan(line * hidden, hidden);
      json["embeddings"].push_back(std::vector<float>(row.begin(), row.end()));
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mp::command
