#include "tests/random/target.h"

namespace mp::test {

std::vector<Target> TheseTargets() { return FakeTargets(); }

}  // namespace mp::test
