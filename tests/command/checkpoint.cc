#include "tests/command/checkpoint.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tests/files/samples.h"

namespace mp::command {

std::string FileOf(const std::vector<Tensor>& tensors, const std::string& metadata) {
  std::vector<std::string> items;
  if (!metadata.empty()) items.push_back(absl::StrCat("\"__metadata__\":", metadata));
  std::string data;
  for (const Tensor& t : tensors) {
    items.push_back(absl::StrCat(nlohmann::json(t.name).dump(), ":{\"dtype\":\"", t.dtype,
                                 "\",\"shape\":[", absl::StrJoin(t.shape, ","),
                                 "],\"data_offsets\":[", data.size(), ",",
                                 data.size() + t.data.size(), "]}"));
    data += t.data;
  }
  return files::SafetensorsFile(absl::StrCat("{", absl::StrJoin(items, ","), "}"), data);
}

std::map<std::string, Content> Contents(const std::string& file) {
  std::map<std::string, Content> contents;
  const auto length = files::Values<uint64_t>(file.substr(0, 8))[0];
  const std::string data = file.substr(8 + length);
  const auto header = nlohmann::json::parse(file.substr(8, length), nullptr, false);
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") {
      contents[name] = {tensor.dump(), ""};
      continue;
    }
    const size_t begin = tensor["data_offsets"][0];
    const size_t end = tensor["data_offsets"][1];
    contents[name] = {tensor["dtype"].get<std::string>() + tensor["shape"].dump(),
                      data.substr(begin, end - begin)};
  }
  return contents;
}

}  // namespace mp::command
