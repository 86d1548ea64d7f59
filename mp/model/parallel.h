// One rank's cores: how a kernel's loops are shared out to several threads.
//
// The threads are OpenMP's, as oneDNN's are, so that both are one team.  With one thread nothing of
// OpenMP is called.
#ifndef MP_MODEL_PARALLEL_H_
#define MP_MODEL_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace mp::model {

// While it lives, oneDNN called from this thread uses `threads` threads.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

// Calls body(begin, end, thread) for runs that make up 0..count, thread < threads; no two of
// them with the same `thread` at once.
void ParallelFor(int threads, int64_t count,
                 const std::function<void(int64_t begin, int64_t end, int thread)>& body);

}  // namespace mp::model

#endif  // MP_MODEL_PARALLEL_H_
