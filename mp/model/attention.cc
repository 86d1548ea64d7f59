#include "mp/model/attention.h"

#include <cmath>
#include <vector>

#include "mp/model/gemm.h"
#include "mp/model/parallel.h"
#include "mp/model/rows.h"

namespace mp::model {

absl::Status Attention::OneHead(int64_t text, int64_t head, float* scores) const {
  const int64_t width = heads * size, pitch = 3 * width;
  const int64_t begin = batch->offsets[static_cast<size_t>(text)], length = batch->length(text);
  const float* query = query_key_value + begin * pitch + head * size;
  const float *key = query + width, *value = key + width;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  absl::Status status =
      MultiplyTransposed({query, pitch}, {key, pitch}, length, length, size, scale, scores, length);
  if (!status.ok()) return status;
  Softmax(scores, length, length);
  return Multiply({scores, length}, {value, pitch}, length, size, length,
                  out + begin * width + head * size, width);
}

absl::Status Attention::operator()() const {
  const ScopedThreads scoped(1);  // each product is one thread's
  const int64_t longest = batch->text_count() == 0 ? 0 : batch->length(0);
  std::vector<absl::Status> failures(static_cast<size_t>(threads));
  ParallelFor(threads, batch->text_count() * heads, [&](int64_t begin, int64_t end, int thread) {
    absl::Status& failure = failures[static_cast<size_t>(thread)];
    for (int64_t i = begin; i < end && failure.ok(); ++i) {
      failure = OneHead(i / heads, i % heads, scratch + thread * longest * longest);
    }
  });
  for (const absl::Status& failure : failures) {
    if (!failure.ok()) return failure;
  }
  return absl::OkStatus();
}

}  // namespace mp::model
