// Counts what malloc gives, to whoever calls it: operator new comes here too.  A program that links
// it has its malloc from here; not under the sanitizers, which have their own.
//
//   const int64_t before = AllocationCount();
//   ...
//   EXPECT_EQ(AllocationCount() - before, 0);
#ifndef MP_TESTS_SUPPORT_ALLOCATIONS_H_
#define MP_TESTS_SUPPORT_ALLOCATIONS_H_

#include <cstdint>

namespace mp::test {

// How many blocks were asked for so far, on all threads.
int64_t AllocationCount();
// The same of the calling thread.
int64_t AllocationsOfThread();
// Those that are asked for while `excused` is true on their thread are not counted any more.
void ExcuseAllocations(bool (*excused)());
// Bytes of the blocks that are not freed, as malloc rounds them up.
int64_t LiveBytes();
// The most that these were since ResetPeakBytes.
int64_t PeakBytes();
void ResetPeakBytes();

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_ALLOCATIONS_H_
