#include "mp/files/npy.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/status.h"
#include "mp/files/npy_literal.h"
#include "mp/files/printable.h"

namespace mp::files {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kLongestHeader = 1 << 20;
constexpr size_t kAlignment = 64;

struct DTypeRow {
  DType dtype;
  absl::string_view code;  // without the byte order
};
constexpr std::array<DTypeRow, 14> kDTypes{{
    {DType::kF16, "f2"},
    {DType::kF32, "f4"},
    {DType::kF64, "f8"},
    {DType::kI8, "i1"},
    {DType::kU8, "u1"},
    {DType::kI16, "i2"},
    {DType::kU16, "u2"},
    {DType::kI32, "i4"},
    {DType::kU32, "u4"},
    {DType::kI64, "i8"},
    {DType::kU64, "u8"},
    {DType::kBool, "b1"},
    {DType::kC64, "c8"},
    {DType::kC128, "c16"},
}};

struct KindRow {
  char kind;
  absl::string_view what;
};
constexpr std::array<KindRow, 6> kOtherKinds{{
    {'U', "strings"},
    {'S', "byte strings"},
    {'O', "Python objects"},
    {'M', "dates"},
    {'m', "time differences"},
    {'V', "raw bytes (.npy has no bf16 and no fp8: save them as .safetensors)"},
}};

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::Status RefuseDType(absl::string_view descr, absl::string_view code) {
  for (const KindRow& row : kOtherKinds) {
    if (!code.empty() && code[0] == row.kind) {
      return Unsupported("dtype '", Printable(descr), "' is ", row.what);
    }
  }
  return Unsupported("dtype '", Printable(descr),
                     "' is not one of f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 b1 c8 c16");
}

absl::StatusOr<DType> DTypeOf(absl::string_view descr) {
  const bool has_order =
      !descr.empty() && absl::string_view("<>=|").find(descr[0]) != absl::string_view::npos;
  const absl::string_view code = has_order ? descr.substr(1) : descr;
  for (const DTypeRow& row : kDTypes) {
    if (row.code != code) continue;
    if (SizeOf(row.dtype) == 1 || descr[0] == '<') return row.dtype;
    if (descr[0] == '>') {
      return Unsupported("dtype '", descr, "' is big-endian; save it again with a.astype('<", code,
                         "')");
    }
    return Unsupported("dtype '", Printable(descr),
                       "' does not say its byte order; save it again "
                       "with a.astype('<",
                       code, "')");
  }
  return RefuseDType(descr, code);
}

// Whether column-major order puts the elements where row-major order does.
bool SameInBothOrders(const Shape& shape) {
  const auto dims = shape.dims();
  return shape.elements() == 0 ||
         std::count_if(dims.begin(), dims.end(), [](int64_t size) { return size != 1; }) <= 1;
}

absl::StatusOr<TensorEntry> Interpret(const NpyLiteral& literal) {
  TensorEntry array;
  MP_ASSIGN_OR_RETURN(array.dtype, DTypeOf(literal.descr));
  if (literal.shape.size() > Shape::kMaxRank) {
    return Unsupported("shape (", absl::StrJoin(literal.shape, ", "), ") has ",
                       literal.shape.size(), " dimensions; at most ", Shape::kMaxRank,
                       " are supported");
  }
  array.shape = Shape(literal.shape);
  MP_RETURN_IF_ERROR(BytesOf(array.dtype, array.shape));
  if (literal.fortran_order && !SameInBothOrders(array.shape)) {
    return Unsupported("shape ", array.shape.ToString(),
                       " is stored in Fortran order; save it again with np.ascontiguousarray(a)");
  }
  return array;
}

// Sets `begin` to where the header's text begins and returns its length.
absl::StatusOr<uint64_t> HeaderLength(absl::string_view file, uint64_t& begin) {
  if (file.size() < kMagic.size() + 2) {
    return InvalidArgument("is no .npy file: it has ", file.size(), " bytes");
  }
  if (file.substr(0, kMagic.size()) != kMagic) {
    return InvalidArgument("is no .npy file: it does not begin with \\x93NUMPY");
  }
  const int major = static_cast<unsigned char>(file[6]);
  const int minor = static_cast<unsigned char>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return Unsupported("version ", major, ".", minor, " of the format; 1.0, 2.0 and 3.0 are known");
  }
  const size_t size_of_length = major == 1 ? 2 : 4;
  begin = kMagic.size() + 2 + size_of_length;
  if (file.size() < begin) {
    return InvalidArgument("is truncated: it ends after ", file.size(), " bytes of its header");
  }
  return LittleEndian(file.substr(kMagic.size() + 2, size_of_length));
}

}  // namespace

absl::StatusOr<TensorEntry> ParseNpy(absl::string_view file) {
  uint64_t begin = 0;
  MP_ASSIGN_OR_RETURN(const uint64_t length, HeaderLength(file, begin));
  if (length > kLongestHeader) {
    return InvalidArgument("its header claims ", length, " bytes; at most ", kLongestHeader,
                           " are read");
  }
  if (file.size() - begin < length) {
    return InvalidArgument("is truncated: its header claims ", length, " bytes, and ",
                           file.size() - begin, " are there");
  }
  MP_ASSIGN_OR_RETURN(const NpyLiteral literal, ParseNpyLiteral(file.substr(begin, length)));
  MP_ASSIGN_OR_RETURN(TensorEntry array, Interpret(literal));
  array.offset = static_cast<int64_t>(begin + length);
  const int64_t found = static_cast<int64_t>(file.size()) - array.offset;
  if (found != array.size_bytes()) {
    return InvalidArgument(found < array.size_bytes() ? "is truncated: "
                                                      : "has bytes at its end "
                                                        "that do not belong to it: ",
                           DTypeName(array.dtype), array.shape.ToString(), " takes ",
                           array.size_bytes(), " bytes behind the header, and ", found,
                           " are there");
  }
  return array;
}

absl::StatusOr<std::string> NpyHeader(DType dtype, const Shape& shape) {
  MP_RETURN_IF_ERROR(BytesOf(dtype, shape));
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const DTypeRow& r) { return r.dtype == dtype; });
  if (row == kDTypes.end()) {
    return Unsupported(".npy files have no ", DTypeName(dtype), "; .safetensors files have");
  }
  const std::string text = absl::StrCat(
      "{'descr': '", SizeOf(dtype) == 1 ? "|" : "<", row->code, "', 'fortran_order': False, ",
      "'shape': (", absl::StrJoin(shape.dims(), ", "), shape.rank() == 1 ? "," : "", "), }");
  std::string header(kMagic);
  header.append({'\x01', '\x00'});
  const size_t before = header.size() + 2;
  const size_t total = (before + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const size_t length = total - before;
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  header += text;
  header.append(total - header.size() - 1, ' ');
  header += '\n';
  return header;
}

}  // namespace mp::files
