// Accesses to plain memory that no lock and no atomic has ordered: the run fails with both places.
//
// Code that is built for exploring is instrumented as for the thread sanitizer (-fsanitize=thread),
// and race.cc has the functions that it calls, over the clocks of the Engine: so a race is what the
// memory model calls one in that schedule, with one memory order weakened too.
//
//   Linked by a test, it is on.  `addr2line -Cfpe PROGRAM` turns a message's addresses into lines.
//
// What a run has allocated anew has no past.  Libraries that are not instrumented are not seen, but
// for what they copy with memcpy, memmove and memset.
#ifndef MP_TESTS_EXPLORE_RACE_H_
#define MP_TESTS_EXPLORE_RACE_H_

#include <cstddef>
#include <cstdint>

namespace mp::explore {

// The running thread reads or writes; `place` is in its code.
void NoteAccess(const void* data, size_t bytes, bool writes, const void* place);
// Nobody has used this memory before.
void ForgetAccesses(const void* data, size_t bytes);

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_RACE_H_
