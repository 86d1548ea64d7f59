#include "mp/files/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/files/safetensors_header.h"
#include "nlohmann/json.hpp"

namespace mp::files {
namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr size_t kSizeOfLength = 8;
constexpr size_t kAlignment = 8;

struct DTypeRow {
  DType dtype;
  absl::string_view name;
};
// In the format's order, which is that of growing alignment.
constexpr std::array<DTypeRow, 16> kDTypes{{
    {DType::kBool, "BOOL"},
    {DType::kU8, "U8"},
    {DType::kI8, "I8"},
    {DType::kF8E5M2, "F8_E5M2"},
    {DType::kF8E4M3, "F8_E4M3"},
    {DType::kI16, "I16"},
    {DType::kU16, "U16"},
    {DType::kF16, "F16"},
    {DType::kBF16, "BF16"},
    {DType::kI32, "I32"},
    {DType::kU32, "U32"},
    {DType::kF32, "F32"},
    {DType::kC64, "C64"},
    {DType::kF64, "F64"},
    {DType::kI64, "I64"},
    {DType::kU64, "U64"},
}};

const DTypeRow* RowOf(DType dtype) {
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const DTypeRow& r) { return r.dtype == dtype; });
  return row == kDTypes.end() ? nullptr : row;
}

std::string KnownNames() {
  return absl::StrJoin(
      kDTypes, " ", [](std::string* out, const DTypeRow& row) { absl::StrAppend(out, row.name); });
}

std::string Tensor(absl::string_view name) {
  return absl::StrCat("tensor \"", Printable(name), "\"");
}

// The header's text and `data`, the offset of the first byte behind it.
absl::StatusOr<absl::string_view> HeaderText(absl::string_view file, int64_t& data) {
  if (file.size() < kSizeOfLength) {
    return InvalidArgument("is no .safetensors file: it has ", file.size(), " bytes");
  }
  uint64_t length = 0;
  for (size_t i = kSizeOfLength; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[i]);
  }
  if (length > kLongestHeader) {
    return InvalidArgument("is no .safetensors file: its header claims ", length,
                           " bytes; the format's limit is ", kLongestHeader);
  }
  if (length > file.size() - kSizeOfLength) {
    return InvalidArgument("is truncated: its header claims ", length, " bytes, and ",
                           file.size() - kSizeOfLength, " are there");
  }
  data = static_cast<int64_t>(kSizeOfLength + length);
  const absl::string_view text = file.substr(kSizeOfLength, length);
  if (text.empty() || text[0] != '{') {
    return InvalidArgument("is no .safetensors file: its header does not begin with {");
  }
  return text;
}

absl::StatusOr<TensorEntry> Interpret(const RawTensor& raw, int64_t data) {
  TensorEntry entry{.name = raw.name};
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const DTypeRow& r) { return r.name == raw.dtype; });
  if (row == kDTypes.end()) {
    return Unsupported(Tensor(raw.name), ": dtype \"", Printable(raw.dtype), "\" is not one of ",
                       KnownNames());
  }
  entry.dtype = row->dtype;
  if (raw.shape.size() > Shape::kMaxRank) {
    return Unsupported(Tensor(raw.name), ": shape [", absl::StrJoin(raw.shape, ", "), "] has ",
                       raw.shape.size(), " dimensions; at most ", Shape::kMaxRank,
                       " are supported");
  }
  entry.shape = Shape(raw.shape);
  const absl::StatusOr<int64_t> bytes = BytesOf(entry.dtype, entry.shape);
  if (!bytes.ok()) return InvalidArgument(Tensor(raw.name), ": ", bytes.status().message());
  const std::string offsets = absl::StrCat("[", absl::StrJoin(raw.offsets, ", "), "]");
  if (raw.offsets.size() != 2 || raw.offsets[0] > raw.offsets[1]) {
    return InvalidArgument(Tensor(raw.name), ": data_offsets ", offsets,
                           " are not a begin and an end");
  }
  if (raw.offsets[1] - raw.offsets[0] != *bytes) {
    return InvalidArgument(Tensor(raw.name), ": data_offsets ", offsets, " span ",
                           raw.offsets[1] - raw.offsets[0], " bytes, and ", raw.dtype,
                           entry.shape.ToString(), " takes ", *bytes);
  }
  if (__builtin_add_overflow(data, raw.offsets[0], &entry.offset)) {
    return InvalidArgument(Tensor(raw.name), ": data_offsets ", offsets, " are beyond 2^63 - 1");
  }
  return entry;
}

// The tensors lie back to back from `data` on and end where the file ends.
absl::Status CheckCoverage(const std::vector<TensorEntry>& tensors, int64_t data, int64_t end) {
  int64_t position = data;
  for (const TensorEntry& entry : tensors) {
    if (entry.offset != position) {
      return InvalidArgument(
          Tensor(entry.name), ": its data begins at ", entry.offset - data,
          entry.offset < position ? " and overlaps" : " and leaves a hole behind", " what ends at ",
          position - data);
    }
    if (entry.size_bytes() > end - position) {
      return InvalidArgument("is truncated: ", Tensor(entry.name), " needs the data up to byte ",
                             entry.offset - data + entry.size_bytes(), ", and it has ", end - data);
    }
    position += entry.size_bytes();
  }
  if (position == end) return absl::OkStatus();
  return InvalidArgument("has bytes at its end that do not belong to it: its tensors take ",
                         position - data, " bytes, and ", end - data, " are there");
}

std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false);
}

absl::StatusOr<std::string> HeaderOf(const std::vector<const TensorEntry*>& ordered,
                                     const Metadata& metadata) {
  std::vector<std::string> items;
  int64_t position = 0;
  try {
    if (!metadata.empty()) {
      items.push_back(absl::StrCat("\"__metadata__\":{",
                                   absl::StrJoin(metadata, ",",
                                                 [](std::string* out, const auto& pair) {
                                                   absl::StrAppend(out, Quoted(pair.first), ":",
                                                                   Quoted(pair.second));
                                                 }),
                                   "}"));
    }
    for (const TensorEntry* entry : ordered) {
      items.push_back(absl::StrCat(Quoted(entry->name), ":{\"dtype\":\"", RowOf(entry->dtype)->name,
                                   "\",\"shape\":[", absl::StrJoin(entry->shape.dims(), ","),
                                   "],\"data_offsets\":[", position, ",",
                                   position + entry->size_bytes(), "]}"));
      position += entry->size_bytes();
    }
  } catch (const nlohmann::json::exception&) {
    return InvalidArgument("a name that is not UTF-8 cannot be written to a .safetensors file");
  }
  std::string text = absl::StrCat("{", absl::StrJoin(items, ","), "}");
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kLongestHeader) {
    return InvalidArgument("the header would have ", text.size(), " bytes; the format's limit is ",
                           kLongestHeader);
  }
  std::string header;
  for (size_t i = 0; i < kSizeOfLength; ++i) {
    header += static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  return header + text;
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ParseSafetensors(absl::string_view file) {
  int64_t data = 0;
  MP_ASSIGN_OR_RETURN(const absl::string_view text, HeaderText(file, data));
  MP_ASSIGN_OR_RETURN(RawHeader raw, ParseRawHeader(text));
  SafetensorsIndex index;
  index.metadata = std::move(raw.metadata);
  for (const RawTensor& tensor : raw.tensors) {
    MP_ASSIGN_OR_RETURN(TensorEntry entry, Interpret(tensor, data));
    index.tensors.push_back(std::move(entry));
  }
  // Empty tensors come before the one that begins at the same place.
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::pair(a.offset, a.size_bytes()) < std::pair(b.offset, b.size_bytes());
            });
  MP_RETURN_IF_ERROR(CheckCoverage(index.tensors, data, static_cast<int64_t>(file.size())));
  return index;
}

absl::StatusOr<SafetensorsLayout> LayOutSafetensors(const SafetensorsIndex& index) {
  std::vector<const TensorEntry*> ordered;
  int64_t total = 0;
  for (const TensorEntry& entry : index.tensors) {
    if (RowOf(entry.dtype) == nullptr) {
      return Unsupported(Tensor(entry.name), ": .safetensors files have no ",
                         DTypeName(entry.dtype));
    }
    MP_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(entry.dtype, entry.shape));
    if (__builtin_add_overflow(total, bytes, &total)) {
      return InvalidArgument("the tensors together have more than 2^63 - 1 bytes");
    }
    ordered.push_back(&entry);
  }
  std::sort(ordered.begin(), ordered.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return a->dtype != b->dtype ? RowOf(a->dtype) > RowOf(b->dtype) : a->name < b->name;
  });
  SafetensorsLayout layout;
  MP_ASSIGN_OR_RETURN(layout.header, HeaderOf(ordered, index.metadata));
  auto position = static_cast<int64_t>(layout.header.size());
  if (__builtin_add_overflow(position, total, &layout.size_bytes)) {
    return InvalidArgument("the file would have more than 2^63 - 1 bytes");
  }
  layout.tensors = index.tensors;
  for (const TensorEntry* entry : ordered) {
    layout.tensors[static_cast<size_t>(entry - index.tensors.data())].offset = position;
    position += entry->size_bytes();
  }
  return layout;
}

}  // namespace mp::files
