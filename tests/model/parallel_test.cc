// Shows that every index is visited once, whatever the threads, and that the number of threads is
// the caller's own again afterwards.
#include "mp/model/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

namespace mp::model {
namespace {

TEST(ParallelFor, VisitsEachIndexOnce) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t count : {0, 1, 2, 3, 7, 100}) {
      std::vector<int> visits(static_cast<size_t>(count));
      std::vector<int> calls(static_cast<size_t>(threads));
      ParallelFor(threads, count, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(begin, end);
        ++calls[static_cast<size_t>(thread)];
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const int visited : visits) EXPECT_EQ(visited, 1);
      for (size_t thread = 0; thread < calls.size(); ++thread) {
        EXPECT_EQ(calls[thread], static_cast<int64_t>(thread) < count ? 1 : 0);
      }
    }
  }
}

TEST(ScopedThreads, AreGivenBack) {
  const int before = omp_get_max_threads();
  {
    const ScopedThreads outer(before + 2);
    EXPECT_EQ(omp_get_max_threads(), before + 2);
    {
      const ScopedThreads inner(1);
      EXPECT_EQ(omp_get_max_threads(), 1);
    }
    EXPECT_EQ(omp_get_max_threads(), before + 2);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace mp::model
