// What a merge of tensor files will do, tensor by tensor, decided from the files' headers alone.
//
//   MP_ASSIGN_OR_RETURN(std::vector<Step> steps, PlanGather(files, rules));
//   MP_RETURN_IF_ERROR(CheckSame(files, steps));   // this one reads data
//
// Errors. One line that names rank, file, tensor, and the two values that do not fit.
#ifndef MP_COMMAND_PLAN_H_
#define MP_COMMAND_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/command/dim_rules.h"
#include "mp/files/tensor_file.h"
#include "mp/region.h"
#include "mp/tensor.h"

namespace mp::command {

struct Step {
  enum class Kind { kGather, kReduce, kSame };

  std::string name;  // empty for .npy
  Kind kind = Kind::kGather;
  int dim = -1;             // kGather: counted from 0
  AllReduceOptions reduce;  // kReduce
  DType dtype = DType::kF32;
  Shape shape;                     // of the result
  std::vector<TensorView> inputs;  // one for each rank

  int64_t size_bytes() const { return shape.elements() * SizeOf(dtype); }
};

// files[r] is rank r's.  Every tensor of every file, in the order of their names.
absl::StatusOr<std::vector<Step>> PlanGather(const std::vector<files::TensorFile>& files,
                                             const DimRules& rules);
absl::StatusOr<std::vector<Step>> PlanReduce(const std::vector<files::TensorFile>& files,
                                             const AllReduceOptions& options);

// The inputs of every kSame step are equal on all ranks, bit by bit.
absl::Status CheckSame(const std::vector<files::TensorFile>& files, const std::vector<Step>& steps);

}  // namespace mp::command

#endif  // MP_COMMAND_PLAN_H_
