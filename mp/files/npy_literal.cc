#include "mp/files/npy_literal.h"

#include "absl/strings/numbers.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"

namespace mp::files {
namespace {

constexpr size_t kMostDimensions = 64;  // NumPy's own limit

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<NpyLiteral> Parse() {
    MP_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      MP_RETURN_IF_ERROR(ParseItem());
      if (Take(',')) continue;
      MP_RETURN_IF_ERROR(Expect('}'));
      break;
    }
    SkipBlanks();
    if (position_ != text_.size()) return Wrong("nothing more");
    if (!has_descr_) return InvalidArgument("the header has no 'descr'");
    if (!has_order_) return InvalidArgument("the header has no 'fortran_order'");
    if (!has_shape_) return InvalidArgument("the header has no 'shape'");
    return result_;
  }

 private:
  absl::Status ParseItem() {
    MP_ASSIGN_OR_RETURN(const std::string key, ParseString("a key in quotes"));
    MP_RETURN_IF_ERROR(Expect(':'));
    if (key == "descr") return Once(has_descr_, key, ParseDescr());
    if (key == "fortran_order") return Once(has_order_, key, ParseOrder());
    if (key == "shape") return Once(has_shape_, key, ParseShape());
    return InvalidArgument("the header has the unknown key '", Printable(key), "'");
  }

  static absl::Status Once(bool& seen, absl::string_view key, absl::Status status) {
    if (seen) return InvalidArgument("the header has '", key, "' twice");
    seen = true;
    return status;
  }

  absl::Status ParseDescr() {
    SkipBlanks();
    if (Next() == '[' || Next() == '(') {
      return Unsupported(
          "a structured dtype (several fields an element); save each field as an "
          "array of its own");
    }
    MP_ASSIGN_OR_RETURN(result_.descr, ParseString("a dtype in quotes"));
    return absl::OkStatus();
  }

  absl::Status ParseOrder() {
    SkipBlanks();
    for (const bool value : {false, true}) {
      const absl::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) != word) continue;
      position_ += word.size();
      result_.fortran_order = value;
      return absl::OkStatus();
    }
    return Wrong("True or False");
  }

  absl::Status ParseShape() {
    MP_RETURN_IF_ERROR(Expect('('));
    bool comma = true;  // whether the tuple may go on or, with one size, end here
    while (!Take(')')) {
      if (!comma) return Wrong("a comma");
      if (result_.shape.size() == kMostDimensions) return Wrong("at most 64 sizes");
      MP_ASSIGN_OR_RETURN(const int64_t size, ParseSize());
      result_.shape.push_back(size);
      comma = Take(',');
    }
    if (result_.shape.size() == 1 && !comma) {
      return InvalidArgument("'shape' is (", result_.shape[0], "), which is no tuple");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ParseSize() {
    SkipBlanks();
    const size_t begin = position_;
    if (Next() == '-') return Wrong("a size that is not negative");
    while (Next() >= '0' && Next() <= '9') ++position_;
    const absl::string_view digits = text_.substr(begin, position_ - begin);
    int64_t size = 0;
    if (digits.empty()) return Wrong("a size");
    if (digits.size() > 1 && digits[0] == '0') return Wrong("a size without leading zeros");
    if (!absl::SimpleAtoi(digits, &size)) {
      return InvalidArgument("the size ", Printable(digits), " is beyond 2^63 - 1");
    }
    if (Next() == 'L') ++position_;  // as Python 2 wrote it
    return size;
  }

  absl::StatusOr<std::string> ParseString(absl::string_view what) {
    SkipBlanks();
    const char quote = Next();
    if (quote != '\'' && quote != '"') return Wrong(what);
    const size_t end = text_.find(quote, position_ + 1);
    if (end == absl::string_view::npos) return Wrong("a string that ends");
    const absl::string_view value = text_.substr(position_ + 1, end - position_ - 1);
    if (value.find('\\') != absl::string_view::npos) return Wrong("a string without backslashes");
    position_ = end + 1;
    return std::string(value);
  }

  char Next() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void SkipBlanks() {
    while (Next() == ' ' || Next() == '\t' || Next() == '\n' || Next() == '\r') ++position_;
  }

  bool Take(char c) {
    SkipBlanks();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Wrong(absl::StrCat("'", std::string(1, c), "'"));
  }

  absl::Status Wrong(absl::string_view expected) const {
    return InvalidArgument("the header is malformed at its byte ", position_, ": expected ",
                           expected, ", found '", Printable(text_.substr(position_, 16)), "'");
  }

  absl::string_view text_;
  size_t position_ = 0;
  NpyLiteral result_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

absl::StatusOr<NpyLiteral> ParseNpyLiteral(absl::string_view text) { return Parser(text).Parse(); }

}  // namespace mp::files
