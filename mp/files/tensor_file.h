// Files of tensors, whatever their format: .npy holds one without a name, .safetensors any number.
//
//   MP_ASSIGN_OR_RETURN(TensorFile shard, TensorFile::Open("s0.npy"));
//   TensorView x = shard.view(0);                                    // the file's own memory
//   MP_ASSIGN_OR_RETURN(TensorFileWriter out, TensorFileWriter::Create("full.npy", {entry}));
//   std::memcpy(out.view(0).data(), ...);
//   MP_RETURN_IF_ERROR(out.Commit());
//
// Errors.    Name the file and the tensor.
// Threads.   As MappedFile and OutputFile.
// Ownership. Move-only; views live as long as their file, those of a writer until Commit.
#ifndef MP_FILES_TENSOR_FILE_H_
#define MP_FILES_TENSOR_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/files/mapped_file.h"
#include "mp/files/output_file.h"
#include "mp/files/safetensors.h"
#include "mp/files/tensor_entry.h"
#include "mp/tensor.h"

namespace mp::files {

enum class FileFormat { kNpy, kSafetensors };

// By the name's extension.
std::optional<FileFormat> FormatOf(absl::string_view path);

class TensorFile {
 public:
  static absl::StatusOr<TensorFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  FileId id() const { return file_.id(); }
  // By name.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  // The memory of tensors()[i].  To write there is a fault.  It is aligned as the file has it,
  // which may be not at all.
  TensorView view(size_t i) const;

 private:
  TensorFile(MappedFile file, SafetensorsIndex index);

  MappedFile file_;
  std::vector<TensorEntry> tensors_;
  Metadata metadata_;
};

class TensorFileWriter {
 public:
  // A file of these tensors, in the format that its name says; the entries' offsets are not looked
  // at.  InvalidArgument: .npy holds exactly one.  Unsupported: the format lacks a dtype.
  static absl::StatusOr<TensorFileWriter> Create(const std::string& path,
                                                 const std::vector<TensorEntry>& tensors,
                                                 const Metadata& metadata,
                                                 const OutputOptions& options);

  const std::string& path() const { return file_.path(); }
  int64_t size_bytes() const { return file_.size_bytes(); }
  // The memory of tensors[i] as given to Create.
  TensorView view(size_t i) const;
  absl::Status Commit() { return file_.Commit(); }

 private:
  TensorFileWriter(OutputFile file, std::vector<TensorEntry> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  OutputFile file_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace mp::files

#endif  // MP_FILES_TENSOR_FILE_H_
