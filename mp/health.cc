#include "mp/health.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mp {
namespace {

constexpr size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

std::string NameOf(const std::optional<RecentOperation>& operation) {
  if (!operation.has_value()) return "-";
  return absl::StrCat(operation->name, " ", operation->sequence, " of Region \"", operation->region,
                      "\"");
}

absl::string_view PlaceName(RankHealth::Place place) {
  switch (place) {
    case RankHealth::Place::kUndriven:
      return "no thread drives it";
    case RankHealth::Place::kLeft:
      return "has left";
    case RankHealth::Place::kWaiting:
      return "waits";
    case RankHealth::Place::kBusy:
      return "busy";
  }
  return "?";
}

Row RowOf(const RankHealth& rank) {
  const bool waits = rank.pending.has_value();
  return {absl::StrCat(rank.rank),
          NameOf(rank.finished),
          NameOf(rank.pending),
          waits ? absl::FormatDuration(absl::Trunc(rank.age, absl::Milliseconds(1))) : "-",
          rank.missing.empty() ? "-" : absl::StrJoin(rank.missing, ","),
          absl::StrCat(PlaceName(rank.place), rank.where.empty() ? "" : ": ", rank.where)};
}

}  // namespace

absl::string_view StateName(WorldHealth::State state) {
  switch (state) {
    case WorldHealth::State::kOk:
      return "ok";
    case WorldHealth::State::kFailed:
      return "failed";
    case WorldHealth::State::kBroken:
      return "broken";
    case WorldHealth::State::kClosed:
      return "closed";
    case WorldHealth::State::kLost:
      return "lost";
  }
  return "?";
}

std::string ToString(const WorldHealth& health) {
  std::string text = absl::StrCat("World: ", StateName(health.state));
  if (!health.cause.empty()) absl::StrAppend(&text, ": ", health.cause);
  absl::StrAppend(&text, "\n");
  for (const WorldHealth::FailedRegion& region : health.failed_regions) {
    absl::StrAppend(&text, "Region \"", region.name, "\" has failed, ", ErrorKindName(region.kind),
                    ": ", region.cause, "\n");
  }
  std::vector<Row> rows = {{"rank", "finished", "pending", "age", "missing", "where"}};
  for (const RankHealth& rank : health.ranks) rows.push_back(RowOf(rank));
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    absl::StrAppend(&text, std::string(widths[0] - row[0].size(), ' '), row[0]);
    for (size_t i = 1; i < kColumns; ++i) {
      absl::StrAppend(&text, "  ", row[i]);
      if (i + 1 < kColumns) text.append(widths[i] - row[i].size(), ' ');
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace mp
