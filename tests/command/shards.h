// A command test whose inputs are the shards of one tensor, element i of which, in memory order, is
// i: so every element tells where it belongs.
#ifndef MP_TESTS_COMMAND_SHARDS_H_
#define MP_TESTS_COMMAND_SHARDS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tests/command/harness.h"

namespace mp::command {

class ShardTest : public CommandTest {
 protected:
  using CommandTest::CommandTest;

  // Writes s0.npy, s1.npy, ..., the tensor of i32 cut along `dim` into `sizes` (shape[dim] is not
  // looked at), and returns their names.
  std::vector<std::string> WriteShards(std::vector<int> shape, size_t dim,
                                       const std::vector<int>& sizes);

  // The named .npy file holds the whole tensor of the last WriteShards.
  void ExpectWhole(const std::string& name);

  static Arguments With(Arguments arguments, const std::vector<std::string>& more);

 private:
  int total_ = 0;
};

}  // namespace mp::command

#endif  // MP_TESTS_COMMAND_SHARDS_H_
