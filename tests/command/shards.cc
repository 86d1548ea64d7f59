#include "tests/command/shards.h"

#include <cstdint>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"

namespace mp::command {

using files::Bytes;
using files::NpyFile;
using files::Values;

std::vector<std::string> ShardTest::WriteShards(std::vector<int> shape, size_t dim,
                                                const std::vector<int>& sizes) {
  shape[dim] = std::accumulate(sizes.begin(), sizes.end(), 0);
  int inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  int outer = 1;
  for (size_t d = 0; d < dim; ++d) outer *= shape[d];
  total_ = outer * shape[dim] * inner;
  std::vector<std::string> names;
  int begin = 0;
  for (const int size : sizes) {
    std::vector<int32_t> values;
    for (int o = 0; o < outer; ++o) {
      for (int i = begin * inner; i < (begin + size) * inner; ++i) {
        values.push_back(o * shape[dim] * inner + i);
      }
    }
    begin += size;
    std::vector<int> shard_shape = shape;
    shard_shape[dim] = size;
    names.push_back(absl::StrCat("s", names.size(), ".npy"));
    folder().Write(
        names.back(),
        NpyFile("<i4", absl::StrCat("(", absl::StrJoin(shard_shape, ", "), ",)"), Bytes(values)));
  }
  return names;
}

void ShardTest::ExpectWhole(const std::string& name) {
  std::vector<int32_t> values(static_cast<size_t>(total_));
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(Values<int32_t>(NpyData(name)), values) << name;
}

CommandTest::Arguments ShardTest::With(Arguments arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace mp::command
