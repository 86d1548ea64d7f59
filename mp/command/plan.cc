#include "mp/command/plan.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/files/element.h"
#include "mp/files/printable.h"

namespace mp::command {
namespace {

using files::Printable;
using files::TensorEntry;
using files::TensorFile;
using Files = std::vector<TensorFile>;

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", Printable(name), "\""); }

// "rank 1: s1.safetensors: tensor "w": ", the beginning of every message.
std::string At(const Files& files, size_t rank, absl::string_view tensor) {
  const std::string file = absl::StrCat("rank ", rank, ": ", Printable(files[rank].path()), ": ");
  return tensor.empty() ? file : absl::StrCat(file, "tensor ", Quoted(tensor), ": ");
}

std::string RankZero(const Files& files) {
  return absl::StrCat("rank 0 (", Printable(files[0].path()), ")");
}

std::string Text(const TensorEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), entry.shape.ToString());
}

std::string NamesWhere(bool (*has)(DType)) {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (has(dtype)) absl::StrAppend(&names, names.empty() ? "" : " ", DTypeName(dtype));
  }
  return names;
}

absl::Status Missing(const Files& files, size_t without, size_t with, const std::string& name) {
  return InvalidArgument("rank ", without, ": ", Printable(files[without].path()),
                         ": has no tensor ", Quoted(name), ", which rank ", with, " (",
                         Printable(files[with].path()), ") has");
}

// All files have tensors of the same names; each list is sorted by name.
absl::Status CheckNames(const Files& files) {
  const std::vector<TensorEntry>& first = files[0].tensors();
  for (size_t rank = 1; rank < files.size(); ++rank) {
    const std::vector<TensorEntry>& other = files[rank].tensors();
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      if (i == first.size()) return Missing(files, 0, rank, other[i].name);
      if (i == other.size() || first[i].name < other[i].name) {
        return Missing(files, rank, 0, first[i].name);
      }
      if (other[i].name < first[i].name) return Missing(files, 0, rank, other[i].name);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDTypes(const Files& files, size_t i) {
  const TensorEntry& first = files[0].tensors()[i];
  for (size_t rank = 1; rank < files.size(); ++rank) {
    const TensorEntry& other = files[rank].tensors()[i];
    if (other.dtype == first.dtype) continue;
    return InvalidArgument(At(files, rank, first.name), "dtype ", DTypeName(other.dtype),
                           " differs from ", DTypeName(first.dtype), " of ", RankZero(files));
  }
  return absl::OkStatus();
}

absl::Status CheckEqualShapes(const Files& files, size_t i, absl::string_view why) {
  const TensorEntry& first = files[0].tensors()[i];
  for (size_t rank = 1; rank < files.size(); ++rank) {
    const TensorEntry& other = files[rank].tensors()[i];
    if (other.shape == first.shape) continue;
    return InvalidArgument(At(files, rank, first.name), Text(other), " differs from ", Text(first),
                           " of ", RankZero(files), ": ", why);
  }
  return absl::OkStatus();
}

// The step for tensor i with the fields that do not depend on what is done with it.
absl::StatusOr<Step> BeginStep(const Files& files, size_t i) {
  MP_RETURN_IF_ERROR(CheckDTypes(files, i));
  const TensorEntry& first = files[0].tensors()[i];
  Step step{.name = first.name, .dtype = first.dtype, .shape = first.shape};
  for (const TensorFile& file : files) step.inputs.push_back(file.view(i));
  return step;
}

// Makes step.shape the joined one.
absl::Status Join(const Files& files, size_t i, const DimRule& rule, Step& step) {
  const TensorEntry& first = files[0].tensors()[i];
  const int rank_of_shape = first.shape.rank();
  if (rank_of_shape == 0) {
    return InvalidArgument(At(files, 0, step.name), Text(first),
                           " has no dimension to be joined along; a gather needs at least one",
                           step.name.empty() ? "" : " (or --dim=NAME:same)");
  }
  if (*rule.dim < -rank_of_shape || *rule.dim >= rank_of_shape) {
    return InvalidArgument(At(files, 0, step.name), rule.flag, " is outside ", -rank_of_shape, "..",
                           rank_of_shape - 1, " of ", Text(first));
  }
  step.dim = *rule.dim < 0 ? *rule.dim + rank_of_shape : *rule.dim;
  int64_t joined = first.shape.dim(step.dim);
  for (size_t rank = 1; rank < files.size(); ++rank) {
    const TensorEntry& other = files[rank].tensors()[i];
    if (other.shape.rank() != rank_of_shape ||
        other.shape.With(step.dim, 0) != first.shape.With(step.dim, 0)) {
      return InvalidArgument(At(files, rank, step.name), Text(other),
                             " cannot be joined along dim ", step.dim, " with ", Text(first),
                             " of ", RankZero(files), ": the other dimensions must be equal");
    }
    if (__builtin_add_overflow(joined, other.shape.dim(step.dim), &joined)) joined = -1;
  }
  step.shape = first.shape.With(step.dim, joined);
  const auto bytes = files::BytesOf(step.dtype, step.shape);
  if (bytes.ok()) return absl::OkStatus();
  return InvalidArgument(At(files, 0, step.name), "the result's ", bytes.status().message());
}

absl::Status CheckReducible(const Files& files, const Step& step) {
  const std::string name(DTypeName(step.dtype));
  if (!IsReducible(step.dtype)) {
    return Unsupported(At(files, 0, step.name), name, " cannot be reduced; ",
                       NamesWhere(IsReducible), " can");
  }
  if (step.reduce.op == ReduceOp::kAvg && !IsReducibleFloat(step.dtype)) {
    return Unsupported(At(files, 0, step.name), name, " has no average; ",
                       NamesWhere(IsReducibleFloat), " have");
  }
  if (step.reduce.scale != 1.0 && !IsReducibleFloat(step.dtype)) {
    return Unsupported(At(files, 0, step.name), name, " cannot be scaled; ",
                       NamesWhere(IsReducibleFloat), " can");
  }
  return absl::OkStatus();
}

// A pattern that matches nothing is a typing error that would change what happens to a tensor.
absl::Status CheckPatterns(const Files& files, const DimRules& rules) {
  const std::vector<TensorEntry>& tensors = files[0].tensors();
  for (const DimRule& rule : rules.patterns()) {
    const auto matches = [&](const TensorEntry& e) { return GlobMatches(rule.pattern, e.name); };
    if (std::any_of(tensors.begin(), tensors.end(), matches)) continue;
    return InvalidArgument(rule.flag, " matches none of the ", tensors.size(), " tensors");
  }
  return absl::OkStatus();
}

// The first element in which two tensors of one dtype and shape differ; the shape's number of
// elements where they do not.
int64_t FirstDifference(const TensorView& a, const TensorView& b) {
  const auto* x = static_cast<const char*>(a.data());
  const auto* y = static_cast<const char*>(b.data());
  const int64_t size = a.size_bytes();
  constexpr int64_t kBlock = 1 << 16;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = std::min(size, begin + kBlock);
    if (std::memcmp(x + begin, y + begin, static_cast<size_t>(end - begin)) == 0) continue;
    return (std::mismatch(x + begin, x + end, y + begin).first - x) / SizeOf(a.dtype());
  }
  return a.shape().elements();
}

}  // namespace

absl::StatusOr<std::vector<Step>> PlanGather(const Files& files, const DimRules& rules) {
  MP_RETURN_IF_ERROR(CheckNames(files));
  MP_RETURN_IF_ERROR(CheckPatterns(files, rules));
  std::vector<Step> steps;
  for (size_t i = 0; i < files[0].tensors().size(); ++i) {
    MP_ASSIGN_OR_RETURN(Step step, BeginStep(files, i));
    const DimRule& rule = rules.For(step.name);
    if (rule.dim.has_value()) {
      MP_RETURN_IF_ERROR(Join(files, i, rule, step));
    } else {
      step.kind = Step::Kind::kSame;
      MP_RETURN_IF_ERROR(CheckEqualShapes(
          files, i, absl::StrCat(Printable(rule.flag), " wants the same tensor on every rank")));
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::StatusOr<std::vector<Step>> PlanReduce(const Files& files, const AllReduceOptions& options) {
  MP_RETURN_IF_ERROR(CheckNames(files));
  std::vector<Step> steps;
  for (size_t i = 0; i < files[0].tensors().size(); ++i) {
    MP_ASSIGN_OR_RETURN(Step step, BeginStep(files, i));
    step.kind = Step::Kind::kReduce;
    step.reduce = options;
    MP_RETURN_IF_ERROR(CheckReducible(files, step));
    MP_RETURN_IF_ERROR(CheckEqualShapes(files, i, "a reduction needs equal shapes"));
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::Status CheckSame(const Files& files, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.kind != Step::Kind::kSame) continue;
    const TensorView& first = step.inputs[0];
    for (size_t rank = 1; rank < step.inputs.size(); ++rank) {
      const TensorView& other = step.inputs[rank];
      const int64_t i = FirstDifference(first, other);
      if (i == step.shape.elements()) continue;
      const int64_t offset = i * SizeOf(step.dtype);
      const auto element = [&](const TensorView& view) {
        return files::ElementText(step.dtype, static_cast<const char*>(view.data()) + offset);
      };
      return InvalidArgument(At(files, rank, step.name), "is not the same as on ", RankZero(files),
                             ": element ", i, " is ", element(other), " and not ", element(first));
    }
  }
  return absl::OkStatus();
}

}  // namespace mp::command
