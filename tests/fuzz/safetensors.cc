#include "mp/files/safetensors.h"

#include "tests/files/samples.h"
#include "tests/fuzz/reader.h"

namespace mp::fuzz {

std::string Read(absl::string_view input) {
  auto index = files::ParseSafetensors(input);
  if (!index.ok()) return std::string(index.status().message());
  // What it says must be there.
  uint8_t sum = 0;
  for (const files::TensorEntry& entry : index->tensors) {
    const absl::string_view bytes =
        input.substr(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.size_bytes()));
    for (const char c : bytes) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
  }
  const auto layout = files::LayOutSafetensors(*index);
  return layout.ok() && sum < 255 ? "OK" : "OK, last";
}

std::vector<std::string> Seeds() {
  return {
      files::SafetensorsFile(R"({"__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [3], "data_offsets": [24, 30]}})",
                             std::string(30, 'x')),
      files::SafetensorsFile(R"({"a": {"shape": [], "data_offsets": [0, 1], "dtype": "BOOL",
        "more": {"x": [1, {"y": null}], "z": 1.5e3}},
        "e": {"dtype": "F8_E4M3", "shape": [0, 9], "data_offsets": [1, 1]}})",
                             "x"),
      files::SafetensorsFile("{}", ""),
      files::SafetensorsFile(R"({"\u00e9\"\\": {"dtype": "C64", "shape": [1, 1, 1, 1, 1, 1, 1, 2],
        "data_offsets": [0, 16]}})",
                             std::string(16, 'x')),
  };
}

std::vector<std::string> Pieces() {
  return {"\"dtype\"",
          "\"shape\"",
          "\"data_offsets\"",
          "\"__metadata__\"",
          "\"F64\"",
          "\"U8\"",
          "[0, 0]",
          "[]",
          "{}",
          "null",
          "true",
          "\\ud800",
          "1.0",
          "1e999",
          "[0, 8]",
          ":",
          ","};
}

}  // namespace mp::fuzz
