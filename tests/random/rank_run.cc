#include "tests/random/rank_run.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/random/predict.h"

namespace mp::test {
namespace {

constexpr int kRoundsAhead = 4;

bool IsCompute(StepKind kind) {
  return kind == StepKind::kFill || kind == StepKind::kStir || kind == StepKind::kCheck;
}

AllReduceOptions ReduceOptionsOf(const Call& call) {
  return {.op = call.op, .scale = call.scale, .shared_output = call.shared_output};
}
GatherOptions GatherOptionsOf(const Call& call) {
  return {.dim = call.dim, .shared_output = call.shared_output};
}

// `door` is a RankRegion or a Batch.
template <typename Door>
absl::Status Post(Door& door, const Call& call, const TensorView& input, const TensorView& output) {
  switch (call.kind) {
    case OpKind::kGather:
      return door.Gather(input, output, call.root, GatherOptionsOf(call));
    case OpKind::kAllGather:
      return door.AllGather(input, output, GatherOptionsOf(call));
    default:
      if (call.input == call.output) return door.AllReduce(input, ReduceOptionsOf(call));
      return door.AllReduce(input, output, ReduceOptionsOf(call));
  }
}

absl::StatusOr<Work> Start(RankRegion& region, const Call& call, const TensorView& input,
                           const TensorView& output) {
  switch (call.kind) {
    case OpKind::kGather:
      return region.StartGather(input, output, call.root, GatherOptionsOf(call));
    case OpKind::kAllGather:
      return region.StartAllGather(input, output, GatherOptionsOf(call));
    default:
      if (call.input == call.output) return region.StartAllReduce(input, ReduceOptionsOf(call));
      return region.StartAllReduce(input, output, ReduceOptionsOf(call));
  }
}

}  // namespace

RankRun::RankRun(const Target& target, const Program& program, const std::vector<uint8_t*>& arenas,
                 std::vector<Region> regions, int id)
    : target_(target),
      program_(program),
      arenas_(arenas),
      regions_(std::move(regions)),
      id_(id),
      doors_(regions_.size()),
      bound_(program.steps.size()),
      compute_(program.steps.size()),
      works_(program.steps.size()),
      seen_(program.steps.size(), Seen::kNothing) {
  next_round_.owner = this;
  for (int group = 0; group < static_cast<int>(program.groups.size()); ++group) {
    positions_.push_back(program.position(group, id));
  }
  for (int step = 0; step < steps(); ++step) {
    compute_[At(step)].owner = this;
    compute_[At(step)].step = step;
    if (member(program.steps[At(step)].group) >= 0) Bind(step);
  }
}

TensorView RankRun::ViewOf(const Place& place, DType dtype) const {
  if (place.arena < 0) return TensorView();
  uint8_t* first = arenas_[At(place.arena)] + place.offset;
  return TensorView::Pitched(first, dtype, place.shape, place.pitch).value();
}

// As the odd call has it.
TensorView RankRun::OddView(const Place& place) const {
  Place odd = place;
  if (program_.odd.fewer && odd.arena >= 0) odd.shape = odd.shape.With(0, odd.shape.dim(0) - 1);
  const bool dense = odd.pitch == place.shape.columns() * SizeOf(program_.odd.dtype);
  if (dense) odd.pitch = odd.shape.columns() * SizeOf(program_.odd.dtype);
  return ViewOf(odd, program_.odd.dtype);
}

void RankRun::Bind(int step) {
  const Step& it = program_.steps[At(step)];
  const size_t m = At(member(it.group));
  for (const Call& call : it.calls) {
    const Array& input = program_.arrays[At(call.input)];
    const Array& output = program_.arrays[At(call.output)];
    bound_[At(step)].push_back(
        {ViewOf(input.places[m], input.dtype), ViewOf(output.places[m], output.dtype)});
  }
}

// --- the rank's thread ---------------------------------------------------------------------------

absl::Status RankRun::Begin(Rank& rank) {
  stream_ = &rank.stream();
  for (size_t group = 0; group < regions_.size(); ++group) {
    if (positions_[group] < 0) continue;
    MP_ASSIGN_OR_RETURN(RankRegion door, regions_[group].ForRank(rank));
    doors_[group].emplace(std::move(door));
  }
  may_wait_ = false;
  return absl::OkStatus();
}

absl::Status RankRun::BeginRound() {
  ++round_;
  return stream_->Launch(target_.kernel(&next_round_));
}

absl::Status RankRun::Go(Rank& rank, int rounds, OddOne& odd_one) {
  MP_RETURN_IF_ERROR(Begin(rank));
  may_wait_ = true;
  for (int round = 0; round < rounds; ++round) {
    MP_RETURN_IF_ERROR(BeginRound());
    for (int step = 0; step < steps(); ++step) {
      if (step == program_.graph_begin && step < program_.graph_end) {
        if (member(program_.steps[At(step)].group) >= 0) MP_RETURN_IF_ERROR(TakeRecorded());
        step = program_.graph_end - 1;
        continue;
      }
      if (step == program_.wrong_step && id_ == program_.wrong_rank) {
        if (const std::optional<absl::Status> end = GoWrong(odd_one)) return *end;
      }
      MP_RETURN_IF_ERROR(Take(step));
    }
    // Like an application that looks at its results, and does not only run ahead.
    if (round % kRoundsAhead == kRoundsAhead - 1) MP_RETURN_IF_ERROR(stream_->Synchronize());
  }
  return stream_->Synchronize();
}

absl::Status RankRun::TakeRecorded() {
  if (!graph_.has_value()) {
    const auto record = [this](RankRegion&) -> absl::Status {
      for (int step = program_.graph_begin; step < program_.graph_end; ++step) {
        MP_RETURN_IF_ERROR(Take(step));
      }
      return absl::OkStatus();
    };
    const int group = program_.steps[At(program_.graph_begin)].group;
    MP_ASSIGN_OR_RETURN(Graph graph, region(group).Capture(record));
    graph_.emplace(std::move(graph));
  }
  return graph_->Launch();
}

absl::Status RankRun::Take(int at) {
  const Step& step = program_.steps[At(at)];
  if (member(step.group) < 0) return absl::OkStatus();
  if (IsCompute(step.kind)) return stream_->Launch(target_.kernel(&compute_[At(at)]));
  switch (step.kind) {
    case StepKind::kCopy:
      return TakeCopy(step);
    case StepKind::kAcquire:
      return region(step.group).AcquireSlot();
    case StepKind::kWait:
      return TakeWait(step);
    case StepKind::kWrong:
      return member(step.group) == step.odd ? TakeWrong(step) : absl::OkStatus();
    default:
      return TakeCalls(step, step.calls, bound_[At(at)], at);
  }
}

absl::Status RankRun::TakeCalls(const Step& step, const std::vector<Call>& calls,
                                const std::vector<Bound>& bound, int at) {
  RankRegion& door = region(step.group);
  if (step.form == Form::kPost) return Post(door, calls[0], bound[0].input, bound[0].output);
  if (step.form == Form::kStart) {
    MP_ASSIGN_OR_RETURN(works_[At(at)], Start(door, calls[0], bound[0].input, bound[0].output));
    return absl::OkStatus();
  }
  Batch batch = door.NewBatch();
  for (size_t i = 0; i < calls.size(); ++i) {
    MP_RETURN_IF_ERROR(Post(batch, calls[i], bound[i].input, bound[i].output));
  }
  if (step.form == Form::kBatch) return batch.End();
  MP_ASSIGN_OR_RETURN(works_[At(at)], batch.Start());
  return absl::OkStatus();
}

absl::Status RankRun::TakeWait(const Step& step) {
  const Work& work = works_[At(step.started)];
  return step.on_host && may_wait_ ? work.Synchronize() : work.Wait(*stream_);
}

// Has no effect, and the program goes on.
absl::Status RankRun::TakeWrong(const Step& step) {
  const absl::Status told = region(step.group).AllReduce(TensorView());
  if (KindOf(told) == ErrorKind::kInvalidArgument) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a wrong call was told: ", told.ToString()));
}

absl::Status RankRun::TakeCopy(const Step& step) {
  const Array& source = program_.arrays[At(step.source)];
  const Array& target = program_.arrays[At(step.array)];
  const Place& from = source.places[At(member(source.group))];
  const Place& to = target.places[At(member(step.group))];
  return stream_->Copy(ViewOf(from, source.dtype), ViewOf(to, target.dtype));
}

// --- what goes wrong -----------------------------------------------------------------------------

std::optional<absl::Status> RankRun::GoWrong(OddOne& odd_one) {
  const Step& step = program_.steps[At(program_.wrong_step)];
  switch (program_.wrong) {
    case Wrong::kMismatch: {
      if (const absl::Status told = CallSomethingElse(); !told.ok()) return told;
      return stream_->Synchronize();
    }
    case Wrong::kAcquires: {
      if (const absl::Status told = region(step.group).AcquireSlot(); !told.ok()) return told;
      return stream_->Synchronize();
    }
    case Wrong::kReturns:
      return absl::OkStatus();
    case Wrong::kFails:
      return absl::DataLossError("the odd one broke");
    case Wrong::kThrows:
      throw std::runtime_error("the odd one threw");
    case Wrong::kStaysAway:
      odd_one.AwaitTold();
      return std::nullopt;
    case Wrong::kCancels:
      regions_[At(step.group)].Cancel("the odd one cancelled");
      return std::nullopt;
    case Wrong::kCloses:
      regions_[At(step.group)].Close();
      return std::nullopt;
    case Wrong::kNothing:
      break;
  }
  return std::nullopt;
}

absl::Status RankRun::CallSomethingElse() {
  const Step& step = program_.steps[At(program_.wrong_step)];
  const size_t m = At(member(step.group));
  const Call& odd = program_.odd.call;
  std::vector<Call> calls = step.calls;
  std::vector<Bound> bound = bound_[At(program_.wrong_step)];
  calls[program_.wrong_call] = odd;
  bound[program_.wrong_call] = {OddView(program_.arrays[At(odd.input)].places[m]),
                                OddView(program_.arrays[At(odd.output)].places[m])};
  MP_RETURN_IF_ERROR(TakeCalls(step, calls, bound, program_.wrong_step));
  if (step.form == Form::kPost || step.form == Form::kBatch) return absl::OkStatus();
  return works_[At(program_.wrong_step)].Wait(*stream_);
}

// --- the rank's stream ---------------------------------------------------------------------------

void RankRun::RunOnStream(int at) {
  if (at < 0) {
    variant_ = (variant_ + 1) % program_.variants;
    ++rounds_seen_;
    return;
  }
  const Step& step = program_.steps[At(at)];
  const Array& array = program_.arrays[At(step.array)];
  const size_t m = At(member(step.group));
  const Place& place = array.places[m];
  if (place.arena < 0) return;
  if (step.kind == StepKind::kCheck) return Compare(at, step, array, m);
  if (!Fills(array, m, id_)) return;
  uint8_t* arena = arenas_[At(place.arena)];
  if (step.kind == StepKind::kFill) {
    return WriteRows(arena, array.dtype, place, step.bytes[At(variant_)][m]);
  }
  Bytes elements = ReadRows(arena, array.dtype, place);
  StirElements(array.dtype, elements);
  WriteRows(arena, array.dtype, place, elements);
}

void RankRun::Compare(int at, const Step& step, const Array& array, size_t m) {
  const Place& place = array.places[m];
  const uint8_t* arena = arenas_[At(place.arena)];
  const Bytes& expected = step.bytes[At(variant_)][m];
  const bool right = SameRows(arena, array.dtype, place, expected);
  if (program_.wrong != Wrong::kNothing) {
    const bool before = SameRows(arena, array.dtype, place, step.before[At(variant_)][m]);
    seen_[At(at)] =
        right ? (before ? Seen::kEither : Seen::kRight) : (before ? Seen::kBefore : Seen::kGarbage);
    return;
  }
  seen_[At(at)] = right ? Seen::kRight : Seen::kGarbage;
  if (right || !difference_.empty()) return;
  difference_ = absl::StrCat(
      "rank ", id_, ", round ", rounds_seen_, ", step ", at, ": ",
      FirstDifference(array.dtype, ReadRows(arena, array.dtype, place), expected, false));
}

}  // namespace mp::test
