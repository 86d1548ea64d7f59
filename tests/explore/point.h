// What a thread is about to do, at a point where another one might go on instead of it; and what
// it knows of the others by then.
#ifndef MP_TESTS_EXPLORE_POINT_H_
#define MP_TESTS_EXPLORE_POINT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <source_location>
#include <string>

namespace mp::explore {

// Of one run, which numbers them from 0 and never twice.
inline constexpr int kMaxThreads = 24;

// The line that calls.
using Site = std::source_location;

enum class OpKind : uint8_t {
  kBegin,   // of a thread
  kLoad,    // of an atomic
  kStore,   // of an atomic
  kUpdate,  // of an atomic: a read-modify-write
  kLock,    // waits until the lock is free
  kTryLock,
  kUnlock,
  kWait,    // looks whether it has to sleep
  kAsleep,  // waits until somebody wakes it, or the time is over
  kWake,
  kYield,  // waits until another thread has changed something
  kJoin,   // waits until the thread has ended
};
const char* Name(OpKind kind);

struct Op {
  OpKind kind = OpKind::kBegin;
  const void* object = nullptr;
  Site site;
};

// Whether it matters which of the two is first.
inline bool Dependent(const Op& a, const Op& b) {
  if (a.kind == OpKind::kYield || b.kind == OpKind::kYield) return true;
  if (a.kind == OpKind::kJoin || b.kind == OpKind::kJoin) return true;
  if (a.kind == OpKind::kBegin || b.kind == OpKind::kBegin) return false;
  return a.object == b.object && (a.kind != OpKind::kLoad || b.kind != OpKind::kLoad);
}

// "mp/group.cc:447"
std::string Describe(const Site& site);
// "lock mp/group.cc:83"
std::string Describe(const Op& op);

// For each thread the number of its operations that happened before.
class VectorClock {
 public:
  uint32_t operator[](int thread) const { return at_[static_cast<size_t>(thread)]; }
  uint32_t& operator[](int thread) { return at_[static_cast<size_t>(thread)]; }
  void Join(const VectorClock& other) {
    for (size_t i = 0; i < at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }

 private:
  std::array<uint32_t, kMaxThreads> at_{};
};

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_POINT_H_
