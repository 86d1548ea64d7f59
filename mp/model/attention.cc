#include "mp/model/attention.h"

#include "mp/model/attend.h"
#include "mp/model/parallel.h"

namespace mp::model {

int64_t Attention::ScratchFloats(int64_t longest, int64_t size) {
  return AttendScratch(longest, size);
}

void Attention::OneText(int64_t text, int64_t head, float* own) const {
  const int64_t width = heads * size, pitch = 3 * width;
  const int64_t begin = batch->offsets[static_cast<size_t>(text)];
  const float* const query = query_key_value + begin * pitch + head * size;
  Attend({query, query + width, query + 2 * width, pitch, batch->length(text), size},
         out + begin * width + head * size, width, own);
}

void Attention::operator()() const {
  const int64_t longest = batch->text_count() == 0 ? 0 : batch->length(0);
  ParallelFor(threads, batch->text_count() * heads, [&](int64_t begin, int64_t end, int thread) {
    float* const own = scratch + thread * AttendScratch(longest, size);
    for (int64_t i = begin; i < end; ++i) OneText(i / heads, i % heads, own);
  });
}

}  // namespace mp::model
