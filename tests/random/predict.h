// What a program must give, found by doing it one step after the other on plain memory, with the
// folds and joins of tests/support/oracle.h.
//
//   Program program = NewProgram(17, {.ranks = 3});
//   Predict(program);   // fills in Step::bytes, Step::before and Program::arenas
#ifndef MP_TESTS_RANDOM_PREDICT_H_
#define MP_TESTS_RANDOM_PREDICT_H_

#include "tests/random/program.h"

namespace mp::test {

void Predict(Program& program);

// What all arenas hold before the first step: bytes that differ from their neighbours.
Bytes Poison(int64_t bytes);

// What a kStir makes of dense elements: another number of the same size; bools and types that are
// only moved turn some bits.
void StirElements(DType dtype, Bytes& elements);

// Rows of a place, in an arena that begins at `arena`, from and to dense elements.
Bytes ReadRows(const uint8_t* arena, DType dtype, const Place& place);
void WriteRows(uint8_t* arena, DType dtype, const Place& place, const Bytes& elements);
bool SameRows(const uint8_t* arena, DType dtype, const Place& place, const Bytes& elements);

// Whether member m, which is `rank`, is the one that fills the place.
bool Fills(const Array& array, size_t m, int rank);

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_PREDICT_H_
