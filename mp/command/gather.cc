// mp gather: joins the ranks' shards along a dimension.

#include <memory>
#include <string>
#include <vector>

#include "mp/base/status.h"
#include "mp/command/command.h"
#include "mp/command/dim_rules.h"
#include "mp/command/merge.h"

namespace mp::command {
namespace {

constexpr char kDescription[] = "Joins shards, one file a rank, along a dimension.";

constexpr char kFooter[] =
    "Shards may have different sizes along the dimension.  Of .safetensors files every tensor is\n"
    "joined with those of the same name, which merges a tensor-parallel checkpoint.  A PATTERN is\n"
    "matched against whole names: * is any text, ? any one byte; the first that matches counts.\n"
    "Tensors with `same` must be equal on all ranks, bit by bit.\n"
    "\n"
    "Examples:\n"
    "  mp gather --out=full.npy s0.npy s1.npy s2.npy s3.npy\n"
    "  mp gather --dim=0 --all --out=results s0.npy s1.npy\n"
    "  mp gather --dim=0 --dim='*.o_proj.weight:1' --dim='*norm*:same' \\\n"
    "    --out=model.safetensors tp0.safetensors tp1.safetensors";

struct GatherOptions {
  MergeOptions merge;
  std::vector<std::string> dims;
  CLI::Option* root = nullptr;
};

absl::Status Check(const GatherOptions& options) {
  MP_RETURN_IF_ERROR(CheckMergeFlags(options.merge));
  const auto count = static_cast<int>(options.merge.files.size());
  if (options.merge.all && options.root->count() > 0) {
    return InvalidArgument("--all and --root exclude each other");
  }
  if (options.merge.root < 0 || options.merge.root >= count) {
    return InvalidArgument("--root=", options.merge.root, " is outside 0..", count - 1,
                           ", the ranks of the files that are given");
  }
  MP_ASSIGN_OR_RETURN(const DimRules rules, DimRules::Parse(options.dims));
  const auto format = files::FormatOf(options.merge.files[0]);
  if (format == files::FileFormat::kNpy && !rules.patterns().empty()) {
    return InvalidArgument(rules.patterns()[0].flag,
                           ": patterns are for .safetensors; the tensors of .npy have no names");
  }
  return absl::OkStatus();
}

absl::Status Run(const GatherOptions& options) {
  MP_ASSIGN_OR_RETURN(const DimRules rules, DimRules::Parse(options.dims));
  return Merge("gather", options.merge, [&](const std::vector<files::TensorFile>& files) {
    return PlanGather(files, rules);
  });
}

}  // namespace

Command AddGather(CLI::App& app) {
  auto options = std::make_shared<GatherOptions>();
  CLI::App* gather = app.add_subcommand("gather", kDescription);
  gather->footer(kFooter);
  gather
      ->add_option("--dim", options->dims,
                   "The dimension to join along, -1 by default;\n"
                   "PATTERN:N or PATTERN:same for tensors whose names match; may be repeated")
      ->type_name("N")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  options->root =
      gather->add_option("--root", options->merge.root, "The rank that receives the result")
          ->type_name("RANK")
          ->capture_default_str();
  AddMergeFlags(*gather, options->merge);
  return {gather, [options] { return Check(*options); }, [options] { return Run(*options); }};
}

}  // namespace mp::command
