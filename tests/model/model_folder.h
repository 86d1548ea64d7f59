// Where the tests find the real model, all-MiniLM-L6-v2: the folder that MP_MODEL names, or else
// mp/models/all-MiniLM-L6-v2 in the user's cache (XDG_CACHE_HOME, or else ~/.cache).
//
//   ASSERT_TRUE(HasModel()) << kNoModel;
#ifndef MP_TESTS_MODEL_MODEL_FOLDER_H_
#define MP_TESTS_MODEL_MODEL_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mp::model {

inline constexpr absl::string_view kNoModel = "the model is not there: run ./tools/test";

std::string ModelFolder();

// Whether that folder has a model.
bool HasModel();

}  // namespace mp::model

#endif  // MP_TESTS_MODEL_MODEL_FOLDER_H_
