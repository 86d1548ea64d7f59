#include "mp/model/batch.h"

#include <algorithm>
#include <numeric>

namespace mp::model {

std::vector<TokenBatch> MakeBatches(absl::Span<const std::vector<int32_t>> texts,
                                    int64_t most_tokens) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  std::vector<TokenBatch> batches;
  for (const size_t i : order) {
    const auto length = static_cast<int64_t>(texts[i].size());
    if (batches.empty() || batches.back().token_count() + length > most_tokens) {
      batches.emplace_back();
      batches.back().offsets.push_back(0);
    }
    TokenBatch& batch = batches.back();
    batch.ids.insert(batch.ids.end(), texts[i].begin(), texts[i].end());
    batch.offsets.push_back(batch.token_count());
    batch.texts.push_back(i);
  }
  return batches;
}

}  // namespace mp::model
