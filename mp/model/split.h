// How many of a model's things (heads, columns) each rank has: runs of equal size, in rank order;
// where they do not divide, the first ranks have one more.
//
//   SliceOf(12, 5, 1)  // {3, 3}: 12 heads over 5 ranks are 3 3 2 2 2
//
// Threads. Pure functions; 0 <= rank < ranks.
#ifndef MP_MODEL_SPLIT_H_
#define MP_MODEL_SPLIT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mp::model {

struct Slice {
  int64_t begin = 0;
  int64_t size = 0;
};

inline Slice SliceOf(int64_t total, int ranks, int rank) {
  const int64_t share = total / ranks, more = total % ranks;
  return {rank * share + std::min<int64_t>(rank, more), share + (rank < more ? 1 : 0)};
}

// The sizes of all ranks' slices.
inline std::vector<int64_t> SizesOf(int64_t total, int ranks) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(SliceOf(total, ranks, rank).size);
  return sizes;
}

}  // namespace mp::model

#endif  // MP_MODEL_SPLIT_H_
