// Files for tests: built byte by byte, without the writers that are under test, in a folder that
// goes when the test ends.
#ifndef MP_TESTS_FILES_SAMPLES_H_
#define MP_TESTS_FILES_SAMPLES_H_

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mp::files {

// The bytes of `values` as they lie in memory.
template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The inverse; what does not fill a T is dropped.
template <typename T>
std::vector<T> Values(absl::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// An .npy file with this header text, which is neither padded nor aligned, and this data.
std::string NpyWithHeader(absl::string_view header, absl::string_view data, int version = 1);

// NpyFile("<f4", "(2, 3)", data).
std::string NpyFile(absl::string_view descr, absl::string_view shape, absl::string_view data);

// A .safetensors file with this header text and this data.
std::string SafetensorsFile(absl::string_view json, absl::string_view data);

// An empty folder below the test's own.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(absl::string_view name) const;
  // The names of all that is in it, hidden ones too, sorted.
  std::vector<std::string> Names() const;
  // Writes a file and returns its path.
  std::string Write(absl::string_view name, absl::string_view bytes) const;

 private:
  std::string path_;
};

// All bytes of a file; a test failure and nothing where it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace mp::files

#endif  // MP_TESTS_FILES_SAMPLES_H_
