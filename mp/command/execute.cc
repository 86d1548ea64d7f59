#include "mp/command/execute.h"

#include "mp/base/status.h"

namespace mp::command {
namespace {

// How much is queued before the progress is looked at.
constexpr int64_t kStride = 16 << 20;

absl::Status Queue(const Job& job, size_t i, Rank& rank) {
  const Step& step = job.steps[i];
  const auto r = static_cast<size_t>(rank.id());
  const TensorView& input = step.inputs[r];
  const TensorView output = job.outputs[job.all ? r : 0].view(i);
  const bool receives = job.all || rank.id() == job.root;
  switch (step.kind) {
    case Step::Kind::kReduce: {
      AllReduceOptions options = step.reduce;
      options.shared_output = !job.all;  // all ranks write the one file
      return rank.region().AllReduce(input, output, options);
    }
    case Step::Kind::kGather:
      if (job.all) return rank.region().AllGather(input, output, {.dim = step.dim});
      return rank.region().Gather(input, receives ? output : TensorView(), job.root,
                                  {.dim = step.dim});
    case Step::Kind::kSame:
      return receives ? rank.stream().Copy(input, output) : absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Execute(const Job& job, World& world, Progress& progress) {
  return world.Run([&](Rank& rank) -> absl::Status {
    const bool watches = progress.shown() && rank.id() == job.root;
    int64_t queued = 0;
    for (size_t i = 0; i < job.steps.size(); ++i) {
      MP_RETURN_IF_ERROR(Queue(job, i, rank));
      queued += job.steps[i].size_bytes();
      if (!watches || queued < kStride) continue;
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());
      progress.Add(queued);
      queued = 0;
    }
    return rank.stream().Synchronize();
  });
}

}  // namespace mp::command
