#include "mp/files/safetensors_header.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "nlohmann/json.hpp"

namespace mp::files {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kMetadataKey = "__metadata__";
constexpr size_t kMostNumbers = 64;  // in a shape
constexpr int kDeepest = 16;         // nested values inside a key that is ignored

// Takes the parser's events one by one; `place_` is where in the form above the parser stands.
class Reader : public nlohmann::json_sax<Json> {
 public:
  absl::StatusOr<RawHeader> Read(absl::string_view json) {
    if (Json::sax_parse(json.begin(), json.end(), this)) return std::move(header_);
    if (error_.ok()) return InvalidArgument("its header is not as the format demands");
    return error_;
  }

  bool null() override { return Value("null"); }
  bool boolean(bool) override { return Value("a boolean"); }
  bool number_float(double, const std::string& text) override {
    return Value(absl::StrCat("the number ", Printable(text)));
  }
  bool number_integer(int64_t value) override { return Value(absl::StrCat("the number ", value)); }
  bool binary(Json::binary_t&) override { return Value("bytes"); }
  bool number_unsigned(uint64_t value) override;
  bool string(std::string& value) override;
  bool start_object(size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    return Fail(absl::StrCat("its header is not valid JSON at byte ", position));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kNumbers, kIgnored, kEnd };

  // A value of a kind that stands nowhere but in what is ignored.
  bool Value(absl::string_view what) {
    if (place_ == Place::kIgnored) return true;
    if (place_ == Place::kTensor && field_.empty()) return true;
    return Fail(absl::StrCat("its header has ", what, " as ", Where()));
  }

  std::string Where() const {
    if (place_ == Place::kStart) return "the whole of it";
    if (place_ == Place::kTop) return absl::StrCat("the value of \"", Printable(name_), "\"");
    const std::string field = Printable(field_);
    if (place_ == Place::kMetadata) return absl::StrCat("the metadata \"", field, "\"");
    return absl::StrCat("the ", field, " of tensor \"", Printable(name_), "\"");
  }

  bool Fail(std::string message) {
    if (error_.ok()) error_ = InvalidArgument(message);
    return false;
  }

  bool Twice(absl::string_view what, absl::string_view name) {
    return Fail(absl::StrCat("its header has the ", what, " \"", Printable(name), "\" twice"));
  }

  RawTensor& tensor() { return header_.tensors.back(); }

  Place place_ = Place::kStart;
  std::string name_;   // the key in the top object
  std::string field_;  // the key below it; empty for one of a tensor that is ignored
  std::vector<int64_t>* numbers_ = nullptr;
  int depth_ = 0;  // of what is ignored
  bool has_metadata_ = false;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_set<std::string> fields_;  // of the present tensor
  RawHeader header_;
  absl::Status error_;
};

bool Reader::number_unsigned(uint64_t value) {
  if (place_ != Place::kNumbers) return Value(absl::StrCat("the number ", value));
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Fail(absl::StrCat("its header has ", value, " in ", Where(), ": beyond 2^63 - 1"));
  }
  if (numbers_->size() == kMostNumbers) {
    return Fail(absl::StrCat("its header has more than 64 numbers as ", Where()));
  }
  numbers_->push_back(static_cast<int64_t>(value));
  return true;
}

bool Reader::string(std::string& value) {
  if (place_ == Place::kMetadata) {
    if (!header_.metadata.emplace(field_, std::move(value)).second) {
      return Twice("metadata", field_);
    }
    return true;
  }
  if (place_ == Place::kTensor && field_ == "dtype") {
    tensor().dtype = std::move(value);
    return true;
  }
  return Value("a string");
}

bool Reader::start_object(size_t) {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kTop;
      return true;
    case Place::kTop:
      place_ = name_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
      if (place_ == Place::kTensor) header_.tensors.push_back({.name = name_});
      fields_.clear();
      return true;
    case Place::kTensor:
    case Place::kIgnored:
      if (place_ == Place::kTensor && !field_.empty()) break;
      place_ = Place::kIgnored;
      if (++depth_ > kDeepest) return Fail("its header is nested too deeply");
      return true;
    default:
      break;
  }
  return Value("an object");
}

bool Reader::key(std::string& name) {
  switch (place_) {
    case Place::kTop:
      name_ = name;
      field_.clear();
      if (!names_.insert(name).second) return Twice("name", name);
      return true;
    case Place::kMetadata:
      field_ = name;
      return true;
    case Place::kTensor:
      if (!fields_.insert(name).second) return Twice("key", name);
      field_ = name == "dtype" || name == "shape" || name == "data_offsets" ? name : "";
      return true;
    default:
      return true;
  }
}

bool Reader::end_object() {
  if (place_ == Place::kIgnored) {
    if (--depth_ == 0) place_ = Place::kTensor;
    return true;
  }
  if (place_ == Place::kTop) {
    place_ = Place::kEnd;
    return true;
  }
  if (place_ == Place::kTensor) {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.contains(field)) continue;
      return Fail(absl::StrCat("its tensor \"", Printable(name_), "\" has no ", field));
    }
  }
  place_ = Place::kTop;
  return true;
}

bool Reader::start_array(size_t) {
  if (place_ == Place::kIgnored || (place_ == Place::kTensor && field_.empty())) {
    place_ = Place::kIgnored;
    if (++depth_ > kDeepest) return Fail("its header is nested too deeply");
    return true;
  }
  if (place_ != Place::kTensor || field_ == "dtype") return Value("an array");
  numbers_ = field_ == "shape" ? &tensor().shape : &tensor().offsets;
  place_ = Place::kNumbers;
  return true;
}

bool Reader::end_array() {
  if (place_ == Place::kIgnored) {
    if (--depth_ == 0) place_ = Place::kTensor;
  } else {
    place_ = Place::kTensor;
  }
  return true;
}

}  // namespace

absl::StatusOr<RawHeader> ParseRawHeader(absl::string_view json) { return Reader().Read(json); }

}  // namespace mp::files
