#include "tests/files/samples.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mp::files {

std::string NpyWithHeader(absl::string_view header, absl::string_view data, int version) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    file += static_cast<char>(header.size() >> 8 * i & 0xff);
  }
  return absl::StrCat(file, header, data);
}

std::string NpyFile(absl::string_view descr, absl::string_view shape, absl::string_view data) {
  return NpyWithHeader(
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }\n"),
      data);
}

std::string SafetensorsFile(absl::string_view json, absl::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(json.size() >> 8 * i & 0xff);
  return absl::StrCat(file, json, data);
}

TempFolder::TempFolder() {
  std::string name = testing::TempDir() + "mp_test_XXXXXX";
  EXPECT_NE(mkdtemp(name.data()), nullptr) << name;
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::operator/(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::vector<std::string> TempFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string TempFolder::Write(absl::string_view name, absl::string_view bytes) const {
  const std::string path = *this / name;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  EXPECT_TRUE(file.good()) << path;
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace mp::files
