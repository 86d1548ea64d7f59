#include "mp/command/execute.h"

#include <algorithm>

#include "mp/base/status.h"
#include "mp/buffer.h"

namespace mp::command {
namespace {

// How much is queued before the progress is looked at.
constexpr int64_t kStride = 16 << 20;

bool Receives(const Job& job, const Rank& rank) { return job.all || rank.id() == job.root; }

const TensorView& InputOf(const Job& job, size_t i, const Rank& rank) {
  return job.steps[i].inputs[static_cast<size_t>(rank.id())];
}

TensorView OutputOf(const Job& job, size_t i, const Rank& rank) {
  return job.outputs[job.all ? static_cast<size_t>(rank.id()) : 0].view(i);
}

absl::Status Gather(const Job& job, const Step& step, Rank& rank, const TensorView& input,
                    const TensorView& output) {
  if (job.all) return rank.region().AllGather(input, output, {.dim = step.dim});
  return rank.region().Gather(input, Receives(job, rank) ? output : TensorView(), job.root,
                              {.dim = step.dim});
}

// From file to file.
absl::Status Queue(const Job& job, size_t i, Rank& rank) {
  const Step& step = job.steps[i];
  const TensorView& input = InputOf(job, i, rank);
  const TensorView output = OutputOf(job, i, rank);
  switch (step.kind) {
    case Step::Kind::kReduce: {
      AllReduceOptions options = step.reduce;
      options.shared_output = !job.all;  // all ranks write the one file
      return rank.region().AllReduce(input, output, options);
    }
    case Step::Kind::kGather:
      return Gather(job, step, rank, input, output);
    case Step::Kind::kSame:
      return Receives(job, rank) ? rank.stream().Copy(input, output) : absl::OkStatus();
  }
  return absl::OkStatus();
}

// Memory on a rank's device for one tensor and one result at a time, which the stream's order and
// that of the operations keep apart.
class Stage {
 public:
  // For the largest of the job.
  static absl::StatusOr<Stage> Create(const Job& job, Rank& rank) {
    int64_t input = 1, output = 1;
    for (size_t i = 0; i < job.steps.size(); ++i) {
      if (job.steps[i].kind == Step::Kind::kSame) continue;
      input = std::max(input, InputOf(job, i, rank).size_bytes());
      const bool joins = job.steps[i].kind == Step::Kind::kGather && Receives(job, rank);
      if (joins) output = std::max(output, job.steps[i].size_bytes());
    }
    Stage stage;
    MP_ASSIGN_OR_RETURN(stage.input_, rank.device().Allocate(DType::kU8, {input}));
    MP_ASSIGN_OR_RETURN(stage.output_, rank.device().Allocate(DType::kU8, {output}));
    return stage;
  }

  absl::Status Queue(const Job& job, size_t i, Rank& rank) const {
    const Step& step = job.steps[i];
    if (step.kind == Step::Kind::kSame) return command::Queue(job, i, rank);
    const TensorView& source = InputOf(job, i, rank);
    const TensorView input(input_.data(), step.dtype, source.shape());
    const TensorView output(output_.data(), step.dtype, step.shape);
    MP_RETURN_IF_ERROR(rank.stream().Copy(source, input));
    const bool reduces = step.kind == Step::Kind::kReduce;
    MP_RETURN_IF_ERROR(reduces ? rank.region().AllReduce(input, step.reduce)
                               : Gather(job, step, rank, input, output));
    if (!Receives(job, rank)) return absl::OkStatus();
    return rank.stream().Copy(reduces ? input : output, OutputOf(job, i, rank));
  }

 private:
  Buffer input_;
  Buffer output_;
};

// `queue(i)` for every step.
template <typename Function>
absl::Status QueueAll(const Job& job, Rank& rank, Progress& progress, const Function& queue) {
  const bool watches = progress.shown() && rank.id() == job.root;
  int64_t queued = 0;
  for (size_t i = 0; i < job.steps.size(); ++i) {
    MP_RETURN_IF_ERROR(queue(i));
    queued += job.steps[i].size_bytes();
    if (!watches || queued < kStride) continue;
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    progress.Add(queued);
    queued = 0;
  }
  return rank.stream().Synchronize();
}

}  // namespace

absl::Status Execute(const Job& job, World& world, Progress& progress) {
  return world.Run([&](Rank& rank) -> absl::Status {
    if (rank.stream().native().handle == nullptr) {
      return QueueAll(job, rank, progress, [&](size_t i) { return Queue(job, i, rank); });
    }
    MP_ASSIGN_OR_RETURN(const Stage stage, Stage::Create(job, rank));
    return QueueAll(job, rank, progress, [&](size_t i) { return stage.Queue(job, i, rank); });
  });
}

}  // namespace mp::command
