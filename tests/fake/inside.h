// Whether a thread is inside one of the fakes' functions: what is allocated there is theirs, and no
// cost of who calls.
//
//   if (Inside::Now()) return;
//
// Threads. Any; of the calling one.
#ifndef MP_TESTS_FAKE_INSIDE_H_
#define MP_TESTS_FAKE_INSIDE_H_

namespace mp::fake {

class Inside {
 public:
  Inside() { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool Now() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_INSIDE_H_
