// A value of a JSON file that knows its file and its place there, so that what is wrong with it
// is said by name.
//
//   MP_ASSIGN_OR_RETURN(const JsonValue file, JsonValue::Load("m/tokenizer.json"));
//   MP_ASSIGN_OR_RETURN(const JsonValue model, file.At("model"));
//   MP_ASSIGN_OR_RETURN(const bool lowercase, model.FlagAt("lowercase"));
//     // m/tokenizer.json: "model.lowercase" is 1, must be true or false
//
// Errors.    InvalidArgument; Unsupported where another choice stands than one of ours.
// Ownership. Values share their file's contents.
#ifndef MP_MODEL_TEXT_JSON_VALUE_H_
#define MP_MODEL_TEXT_JSON_VALUE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace mp::model {

class JsonValue {
 public:
  // The object that the whole file is.
  static absl::StatusOr<JsonValue> Load(const std::string& path);

  // Whether this is an object with such a key, and not null there.
  bool Has(absl::string_view key) const;

  // Of an object.  A value that is null is missing.
  absl::StatusOr<JsonValue> At(absl::string_view key) const;
  absl::StatusOr<bool> FlagAt(absl::string_view key) const;
  absl::StatusOr<std::string> TextAt(absl::string_view key) const;
  absl::StatusOr<int32_t> WholeAt(absl::string_view key, int32_t least, int32_t most) const;

  // The text there, if it is one of `known`.
  absl::StatusOr<std::string> OneOfAt(absl::string_view key,
                                      std::initializer_list<absl::string_view> known) const;

  absl::StatusOr<std::vector<JsonValue>> Elements() const;

  // Of this value.  "m/x.json: "a.b" is 7, must be `wanted`", and "is 7; supported: `known`".
  absl::Status Wrong(absl::string_view wanted) const;
  absl::Status Other(absl::string_view known) const;

  // InvalidArgument: "m/x.json: "a.b" `what`".
  absl::Status Because(absl::string_view what) const;

  const std::string& path() const { return path_; }
  const nlohmann::json& json() const { return *json_; }

 private:
  JsonValue(std::shared_ptr<const nlohmann::json> json, std::string path, std::string name)
      : json_(std::move(json)), path_(std::move(path)), name_(std::move(name)) {}

  JsonValue Part(const nlohmann::json& json, std::string name) const;
  std::string NameOf(absl::string_view key) const;
  std::string Where() const;

  std::shared_ptr<const nlohmann::json> json_;  // with its file's root
  std::string path_;
  std::string name_;  // "model.vocab", nothing for the file itself
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_JSON_VALUE_H_
