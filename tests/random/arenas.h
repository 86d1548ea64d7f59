// Where the tensors of a program lie: shapes and places as they are drawn, one behind the other in
// the arenas of the ranks, with bytes between them that nobody may touch.
#ifndef MP_TESTS_RANDOM_ARENAS_H_
#define MP_TESTS_RANDOM_ARENAS_H_

#include <vector>

#include "tests/random/program.h"

namespace mp::test {

class Arenas {
 public:
  Arenas(const ProgramOptions& options, Random& random);

  // Of so many dimensions, some of them empty now and then.
  Shape NewShape(int dims);
  // A shard's size along the dimension that is joined.
  int64_t NewExtent(int dims);

  // A tensor of its own for each of `ranks`; where a shape's place in `wanted` is false, none.
  // `dense`: without gaps between rows.
  Array NewArray(int group, const std::vector<int>& ranks, DType dtype,
                 const std::vector<Shape>& shapes, bool dense,
                 const std::vector<bool>& wanted = {});
  // One for all of them.
  Array NewShared(int group, const std::vector<int>& ranks, DType dtype, const Shape& shape,
                  bool dense);
  // Each shard in its place of `output`, array number `alias`; for a Gather some of them apart.
  Array NewSlots(const Array& output, int alias, const std::vector<int>& ranks, const Call& call,
                 int dim, const std::vector<Shape>& shapes);

  // The longest.
  int64_t bytes() const;

 private:
  Place NewPlace(int rank, DType dtype, const Shape& shape, bool dense);

  const ProgramOptions& options_;
  Random& random_;
  std::vector<int64_t> end_;  // by rank
};

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_ARENAS_H_
