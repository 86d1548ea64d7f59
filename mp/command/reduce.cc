// mp reduce: sums (or multiplies, ...) the ranks' tensors element by element.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "mp/base/status.h"
#include "mp/command/command.h"
#include "mp/command/merge.h"

namespace mp::command {
namespace {

constexpr char kDescription[] = "Reduces tensors of one shape, one file a rank, by element.";

constexpr char kFooter[] =
    "On the host the ranks are folded in their order, 16-bit floats in f32 with one rounding at "
    "the\n"
    "end; over GPUs sums may differ from that in their last bits.  Of .safetensors files every\n"
    "tensor is reduced with those of the same name.  f32 f64 f16 bf16 can be reduced in every "
    "way;\n"
    "i8 u8 i32 u32 i64 u64 wrap, and have no avg and no scale.\n"
    "\n"
    "Examples:\n"
    "  mp reduce --out=sum.npy p0.npy p1.npy\n"
    "  mp reduce --op=avg --out=mean.safetensors a.safetensors b.safetensors c.safetensors\n"
    "  mp reduce --op=max --all --out=results p0.npy p1.npy";

struct ReduceOptions {
  MergeOptions merge;
  std::string op = "sum";
  double scale = 1.0;
};

absl::Status Check(const ReduceOptions& options) {
  MP_RETURN_IF_ERROR(CheckMergeFlags(options.merge));
  if (!std::isfinite(options.scale)) {
    return InvalidArgument("--scale=", options.scale, " is not a finite number");
  }
  return absl::OkStatus();
}

absl::Status Run(const ReduceOptions& options) {
  const AllReduceOptions reduce{.op = *ReduceOpFromName(options.op), .scale = options.scale};
  return Merge("reduce", options.merge, [&](const std::vector<files::TensorFile>& files) {
    return PlanReduce(files, reduce);
  });
}

}  // namespace

Command AddReduce(CLI::App& app) {
  auto options = std::make_shared<ReduceOptions>();
  CLI::App* reduce = app.add_subcommand("reduce", kDescription);
  reduce->footer(kFooter);
  reduce->add_option("--op", options->op, "sum, prod, min, max or avg")
      ->check(CLI::IsMember({"sum", "prod", "min", "max", "avg"}))
      ->type_name("NAME")
      ->capture_default_str();
  reduce->add_option("--scale", options->scale, "Multiply every input by this first")
      ->type_name("X")
      ->capture_default_str();
  AddMergeFlags(*reduce, options->merge);
  return {reduce, [options] { return Check(*options); }, [options] { return Run(*options); }};
}

}  // namespace mp::command
