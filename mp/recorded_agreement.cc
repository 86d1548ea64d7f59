// Whether what ranks have recorded is the same list of operations.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/agreement.h"
#include "mp/recording.h"

namespace mp {
namespace {

using Operations = std::vector<const RecordedItem*>;

Operations OperationsOf(const Recording& recording) {
  Operations operations;
  for (const RecordedItem& item : recording.items()) {
    if (item.kind == RecordedItem::Kind::kOperation) operations.push_back(&item);
  }
  return operations;
}

// As if the ranks had posted what each has recorded at this position.
std::string FindDisagreementAt(size_t position, const std::vector<Operations>& lists,
                               absl::Span<const int> ranks) {
  Operation operation;
  operation.world_size = static_cast<int>(lists.size());
  operation.steps = lists[0][position]->steps;
  operation.parts.resize(operation.steps.size() * lists.size());
  for (size_t peer = 0; peer < lists.size(); ++peer) {
    const RecordedItem& item = *lists[peer][position];
    if (!Agree(operation.steps, item.steps)) {
      operation.differing.push_back({static_cast<int>(peer), item.steps});
      continue;
    }
    for (size_t step = 0; step < item.parts.size(); ++step) {
      operation.parts[step * lists.size() + peer] = item.parts[step];
    }
  }
  return FindDisagreement(operation, ranks);
}

std::string DescribeCounts(const std::vector<Operations>& lists, size_t shortest,
                           absl::Span<const int> ranks) {
  std::string text = "the ranks have recorded different numbers of operations:";
  const RecordedItem* missing = nullptr;
  for (size_t peer = 0; peer < lists.size(); ++peer) {
    absl::StrAppend(&text, peer == 0 ? " rank " : ", rank ", ranks[peer], " ", lists[peer].size());
    if (lists[peer].size() > shortest && missing == nullptr) missing = lists[peer][shortest];
  }
  return absl::StrCat(text, "; the first that not all have is operation ", shortest, ", ",
                      Describe(missing->steps));
}

}  // namespace

std::string FindRecordedDisagreement(const Operation& capture, absl::Span<const int> ranks) {
  std::vector<Operations> lists;
  for (const auto& recording : capture.recordings) {
    if (!recording->status().ok()) return "";
    lists.push_back(OperationsOf(*recording));
  }
  size_t shortest = lists[0].size(), longest = shortest;
  for (const Operations& list : lists) {
    shortest = std::min(shortest, list.size());
    longest = std::max(longest, list.size());
  }
  for (size_t position = 0; position < shortest; ++position) {
    const std::string wrong = FindDisagreementAt(position, lists, ranks);
    if (wrong.empty()) continue;
    return absl::StrCat("operation ", position, " of what was recorded: ", wrong);
  }
  return shortest == longest ? "" : DescribeCounts(lists, shortest, ranks);
}

}  // namespace mp
