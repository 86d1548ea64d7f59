// .safetensors files of tests: made of tensors and taken apart again, without the code under test.
#ifndef MP_TESTS_COMMAND_CHECKPOINT_H_
#define MP_TESTS_COMMAND_CHECKPOINT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mp::command {

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<int> shape;
  std::string data;
};

// The tensors lie in the file in this order; `metadata` is JSON.
std::string FileOf(const std::vector<Tensor>& tensors, const std::string& metadata = "");

// "BF16[2,3]" and the data.
using Content = std::pair<std::string, std::string>;

// What a file holds, by name; its metadata as "__metadata__".
std::map<std::string, Content> Contents(const std::string& file);

}  // namespace mp::command

#endif  // MP_TESTS_COMMAND_CHECKPOINT_H_
