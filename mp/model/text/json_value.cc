#include "mp/model/text/json_value.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "mp/base/status.h"
#include "mp/files/mapped_file.h"
#include "mp/files/printable.h"
#include "mp/model/text/json_nesting.h"

namespace mp::model {

using Json = nlohmann::json;
using files::Printable;

namespace {

constexpr size_t kLongestValue = 80;  // in a message

std::string Shown(const Json& json) { return Printable(json.dump(), kLongestValue); }

}  // namespace

absl::StatusOr<JsonValue> JsonValue::Load(const std::string& path) {
  MP_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(path));
  try {
    auto json = std::make_shared<const Json>(Json::parse(file.bytes()));
    if (NestsTooDeeply(file.bytes())) {
      return InvalidArgument(Printable(path), ": is nested too deeply");
    }
    if (json->is_object()) return JsonValue(std::move(json), path, "");
  } catch (const Json::parse_error& error) {
    return InvalidArgument(Printable(path), ": is not valid JSON at byte ", error.byte);
  } catch (const Json::exception&) {  // a number that no double holds
    return InvalidArgument(Printable(path), ": is not valid JSON");
  }
  return InvalidArgument(Printable(path), ": is no JSON object");
}

bool JsonValue::Has(absl::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found != json_->end() && !found->is_null();
}

absl::StatusOr<JsonValue> JsonValue::At(absl::string_view key) const {
  if (!json_->is_object()) return Wrong("an object");
  if (!Has(key)) return InvalidArgument(Printable(path_), ": \"", NameOf(key), "\" is missing");
  return Part(json_->at(std::string(key)), NameOf(key));
}

absl::StatusOr<bool> JsonValue::FlagAt(absl::string_view key) const {
  MP_ASSIGN_OR_RETURN(const JsonValue value, At(key));
  if (!value.json().is_boolean()) return value.Wrong("true or false");
  return value.json().get<bool>();
}

absl::StatusOr<std::string> JsonValue::TextAt(absl::string_view key) const {
  MP_ASSIGN_OR_RETURN(const JsonValue value, At(key));
  if (!value.json().is_string()) return value.Wrong("a string");
  return value.json().get<std::string>();
}

absl::StatusOr<int32_t> JsonValue::WholeAt(absl::string_view key, int32_t least,
                                           int32_t most) const {
  MP_ASSIGN_OR_RETURN(const JsonValue value, At(key));
  const Json& json = value.json();
  if (!json.is_number_integer() || json < least || json > most) {
    return value.Wrong(absl::StrCat("a whole number in ", least, "..", most));
  }
  return json.get<int32_t>();
}

absl::StatusOr<std::string> JsonValue::OneOfAt(
    absl::string_view key, std::initializer_list<absl::string_view> known) const {
  MP_ASSIGN_OR_RETURN(std::string text, TextAt(key));
  for (const absl::string_view one : known) {
    if (text == one) return text;
  }
  return Part(json_->at(std::string(key)), NameOf(key)).Other(absl::StrJoin(known, ", "));
}

absl::StatusOr<std::vector<JsonValue>> JsonValue::Elements() const {
  if (!json_->is_array()) return Wrong("an array");
  std::vector<JsonValue> elements;
  for (const Json& element : *json_) {
    elements.push_back(Part(element, absl::StrCat(name_, "[", elements.size(), "]")));
  }
  return elements;
}

absl::Status JsonValue::Wrong(absl::string_view wanted) const {
  return InvalidArgument(Where(), " is ", Shown(*json_), ", must be ", wanted);
}

absl::Status JsonValue::Other(absl::string_view known) const {
  return Unsupported(Where(), " is ", Shown(*json_), "; supported: ", known);
}

absl::Status JsonValue::Because(absl::string_view what) const {
  return InvalidArgument(Where(), " ", what);
}

JsonValue JsonValue::Part(const Json& json, std::string name) const {
  return JsonValue(std::shared_ptr<const Json>(json_, &json), path_, std::move(name));
}

std::string JsonValue::NameOf(absl::string_view key) const {
  return name_.empty() ? Printable(key) : absl::StrCat(name_, ".", Printable(key));
}

std::string JsonValue::Where() const { return absl::StrCat(Printable(path_), ": \"", name_, "\""); }

}  // namespace mp::model
