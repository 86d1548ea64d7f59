#include "mp/files/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/files/npy.h"
#include "mp/files/printable.h"

namespace mp::files {
namespace {

// `status` with the file's name before its message.
absl::Status InFile(const std::string& path, const absl::Status& status) {
  return MakeError(KindOf(status), absl::StrCat(Printable(path), ": ", status.message()));
}

absl::Status UnknownExtension(const std::string& path) {
  return InvalidArgument(Printable(path), ": the name ends neither in .npy nor in .safetensors");
}

absl::StatusOr<SafetensorsIndex> Parse(FileFormat format, absl::string_view bytes) {
  if (format == FileFormat::kSafetensors) return ParseSafetensors(bytes);
  MP_ASSIGN_OR_RETURN(TensorEntry array, ParseNpy(bytes));
  return SafetensorsIndex{.tensors = {std::move(array)}};
}

absl::StatusOr<SafetensorsLayout> LayOut(FileFormat format, SafetensorsIndex index) {
  if (format == FileFormat::kSafetensors) return LayOutSafetensors(index);
  if (index.tensors.size() != 1) {
    return InvalidArgument("an .npy file holds one tensor, not ", index.tensors.size());
  }
  TensorEntry& array = index.tensors[0];
  SafetensorsLayout layout;
  MP_ASSIGN_OR_RETURN(layout.header, NpyHeader(array.dtype, array.shape));
  array.offset = static_cast<int64_t>(layout.header.size());
  if (__builtin_add_overflow(array.offset, array.size_bytes(), &layout.size_bytes)) {
    return InvalidArgument("the file would have more than 2^63 - 1 bytes");
  }
  layout.tensors = std::move(index.tensors);
  return layout;
}

}  // namespace

std::optional<FileFormat> FormatOf(absl::string_view path) {
  if (absl::EndsWith(path, ".npy")) return FileFormat::kNpy;
  if (absl::EndsWith(path, ".safetensors")) return FileFormat::kSafetensors;
  return std::nullopt;
}

absl::StatusOr<TensorFile> TensorFile::Open(const std::string& path) {
  const std::optional<FileFormat> format = FormatOf(path);
  if (!format.has_value()) return UnknownExtension(path);
  MP_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<SafetensorsIndex> index = Parse(*format, file.bytes());
  if (!index.ok()) return InFile(path, index.status());
  return TensorFile(std::move(file), *std::move(index));
}

TensorFile::TensorFile(MappedFile file, SafetensorsIndex index)
    : file_(std::move(file)),
      tensors_(std::move(index.tensors)),
      metadata_(std::move(index.metadata)) {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
}

TensorView TensorFile::view(size_t i) const {
  const TensorEntry& entry = tensors_[i];
  // Views have no form for memory that is only read.
  return TensorView(const_cast<char*>(file_.bytes().data()) + entry.offset, entry.dtype,
                    entry.shape);
}

absl::StatusOr<TensorFileWriter> TensorFileWriter::Create(const std::string& path,
                                                          const std::vector<TensorEntry>& tensors,
                                                          const Metadata& metadata,
                                                          const OutputOptions& options) {
  const std::optional<FileFormat> format = FormatOf(path);
  if (!format.has_value()) return UnknownExtension(path);
  absl::StatusOr<SafetensorsLayout> layout =
      LayOut(*format, {.tensors = tensors, .metadata = metadata});
  if (!layout.ok()) return InFile(path, layout.status());
  MP_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, layout->size_bytes, options));
  std::memcpy(file.data(), layout->header.data(), layout->header.size());
  return TensorFileWriter(std::move(file), std::move(layout->tensors));
}

TensorView TensorFileWriter::view(size_t i) const {
  const TensorEntry& entry = tensors_[i];
  return TensorView(file_.data() + entry.offset, entry.dtype, entry.shape);
}

}  // namespace mp::files
