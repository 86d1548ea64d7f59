#include "tests/model/model_folder.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace mp::model {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string ModelFolder() {
  if (const std::string folder = Variable("MP_MODEL"); !folder.empty()) return folder;
  std::string cache = Variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = absl::StrCat(Variable("HOME"), "/.cache");
  return absl::StrCat(cache, "/mp/models/all-MiniLM-L6-v2");
}

bool HasModel() { return std::filesystem::exists(absl::StrCat(ModelFolder(), "/config.json")); }

}  // namespace mp::model
