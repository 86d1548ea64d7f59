// Where there is no CUDA toolkit to build the fakes with.
#include "tests/random/target.h"

namespace mp::test {

std::vector<Target> FakeTargets() { return {}; }

}  // namespace mp::test
