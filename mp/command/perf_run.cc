#include "mp/command/perf_run.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/command/perf_pattern.h"

namespace mp::command {
namespace {

constexpr std::byte kPoison{0xA5};
// Operations that are waited for one by one, for min, median and p99.
constexpr int64_t kMostWaitedFor = 1000;

double Now() { return absl::ToDoubleSeconds(sync::Clock::Steady().Now()); }

size_t At(int64_t i) { return static_cast<size_t>(i); }

// The operation with its tensors.
class Bench {
 public:
  Bench(World& world, const PerfSpec& spec) : world_(world), spec_(spec) {}

  absl::Status Open(int64_t bytes, bool in_place);
  absl::StatusOr<PerfTimes> Run();

  int64_t bytes() const { return bytes_; }
  int64_t count() const {
    int64_t most = 0;
    for (const TensorView& input : sets_[0].inputs) {
      most = std::max(most, input.shape().elements());
    }
    return most;
  }

 private:
  // By rank: the tensors of one operation.
  struct Set {
    std::vector<TensorView> inputs, outputs;
  };

  int ranks() const { return world_.world_size(); }
  bool IsGather() const { return spec_.op != PerfOp::kAllReduce; }
  bool Receives(int rank) const { return spec_.op != PerfOp::kGather || rank == spec_.root; }
  std::vector<int64_t> Widths(int64_t columns) const;
  absl::StatusOr<TensorView> Allocate(int rank, const Shape& shape);
  absl::Status AddReduction(int64_t bytes, bool in_place);
  absl::Status AddGather(int64_t bytes, bool in_place);

  absl::Status Fill(const Set& set);
  absl::StatusOr<int64_t> CountWrongElements(const Set& set);
  absl::Status CopyIn(int rank, const TensorView& to, const Bytes& bytes);
  absl::StatusOr<Bytes> CopyOut(int rank, const TensorView& from);

  absl::Status Post(RankRegion& region, Stream& stream);
  absl::Status PostAll();
  // Runs `iterations`, each waited for where `waits` has room; the seconds of all of them.
  absl::StatusOr<double> Iterate(int64_t iterations, std::vector<double>* waits);

  World& world_;
  const PerfSpec& spec_;
  std::vector<Buffer> memory_;
  std::vector<Set> sets_;  // one for each operation of a batch
  int64_t bytes_ = 0;
};

std::vector<int64_t> Bench::Widths(int64_t columns) const {
  const int64_t parts = spec_.uneven ? int64_t{ranks()} * (ranks() + 1) / 2 : ranks();
  std::vector<int64_t> widths;
  int64_t before = 0;
  for (int64_t rank = 0, share = 0; rank < ranks(); ++rank) {
    share += spec_.uneven ? rank + 1 : 1;
    const int64_t end = columns * share / parts;
    widths.push_back(end - before);
    before = end;
  }
  return widths;
}

absl::StatusOr<TensorView> Bench::Allocate(int rank, const Shape& shape) {
  MP_ASSIGN_OR_RETURN(Buffer buffer, world_.device(rank).Allocate(spec_.dtype, shape));
  memory_.push_back(std::move(buffer));
  return memory_.back().view();
}

absl::Status Bench::Open(int64_t bytes, bool in_place) {
  for (int i = 0; i < spec_.batch; ++i) {
    sets_.emplace_back();
    MP_RETURN_IF_ERROR(IsGather() ? AddGather(bytes, in_place) : AddReduction(bytes, in_place));
  }
  return absl::OkStatus();
}

absl::Status Bench::AddReduction(int64_t bytes, bool in_place) {
  Set& set = sets_.back();
  const int64_t count = std::max<int64_t>(bytes / SizeOf(spec_.dtype), 1);
  for (int rank = 0; rank < ranks(); ++rank) {
    MP_ASSIGN_OR_RETURN(const TensorView input, Allocate(rank, {count}));
    set.inputs.push_back(input);
    set.outputs.push_back(input);
    if (!in_place) {
      MP_ASSIGN_OR_RETURN(set.outputs.back(), Allocate(rank, {count}));
    }
  }
  bytes_ = set.inputs[0].size_bytes();
  return absl::OkStatus();
}

absl::Status Bench::AddGather(int64_t bytes, bool in_place) {
  Set& set = sets_.back();
  const int64_t elements = std::max<int64_t>(bytes / SizeOf(spec_.dtype), ranks());
  const int64_t rows = std::clamp<int64_t>(elements / ranks(), 1, spec_.rows);
  const int64_t columns = elements / rows;
  bytes_ = rows * columns * SizeOf(spec_.dtype);
  TensorView at_root;
  for (int rank = 0; rank < ranks(); ++rank) {
    set.outputs.emplace_back();  // of a rank that gets nothing
    if (!Receives(rank)) continue;
    MP_ASSIGN_OR_RETURN(set.outputs.back(), Allocate(rank, {rows, columns}));
    at_root = set.outputs.back();
  }
  int64_t before = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    const int64_t width = Widths(columns)[At(rank)];
    if (in_place) {
      const TensorView& whole = Receives(rank) ? set.outputs[At(rank)] : at_root;
      MP_ASSIGN_OR_RETURN(const TensorView slot, whole.Columns(before, width));
      set.inputs.push_back(slot);
    } else {
      MP_ASSIGN_OR_RETURN(const TensorView shard, Allocate(rank, {rows, width}));
      set.inputs.push_back(shard);
    }
    before += width;
  }
  return absl::OkStatus();
}

// --- data ----------------------------------------------------------------------------------------

absl::Status Bench::CopyIn(int rank, const TensorView& to, const Bytes& bytes) {
  const TensorView from(const_cast<std::byte*>(bytes.data()), to.dtype(), to.shape());
  MP_RETURN_IF_ERROR(world_.stream(rank).Copy(from, to));
  return world_.stream(rank).Synchronize();
}

absl::StatusOr<Bytes> Bench::CopyOut(int rank, const TensorView& from) {
  Bytes bytes(At(from.shape().elements() * SizeOf(from.dtype())));
  const TensorView to(bytes.data(), from.dtype(), from.shape());
  MP_RETURN_IF_ERROR(world_.stream(rank).Copy(from, to));
  MP_RETURN_IF_ERROR(world_.stream(rank).Synchronize());
  return bytes;
}

absl::Status Bench::Fill(const Set& set) {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!Receives(rank)) continue;
    const TensorView& output = set.outputs[At(rank)];
    MP_RETURN_IF_ERROR(CopyIn(rank, output, Bytes(At(output.size_bytes()), kPoison)));
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    const TensorView& input = set.inputs[At(rank)];
    const Bytes bytes =
        IsGather() ? GatherInput(input.rows(), input.row_bytes(), rank)
                   : ReductionInput(spec_.dtype, spec_.reduce_op, input.shape().elements(), rank);
    MP_RETURN_IF_ERROR(CopyIn(rank, input, bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Bench::CountWrongElements(const Set& set) {
  Bytes expected;
  if (IsGather()) {
    std::vector<int64_t> row_bytes;
    for (const TensorView& input : set.inputs) row_bytes.push_back(input.row_bytes());
    expected = GatherResult(set.inputs[0].rows(), row_bytes);
  } else {
    expected = ReductionResult(spec_.dtype, spec_.reduce_op, count(), ranks());
  }
  int64_t wrong = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!Receives(rank)) continue;
    MP_ASSIGN_OR_RETURN(const Bytes seen, CopyOut(rank, set.outputs[At(rank)]));
    wrong += CountWrong(seen, expected, spec_.dtype);
  }
  return wrong;
}

// --- operations ----------------------------------------------------------------------------------

absl::Status Bench::Post(RankRegion& region, Stream& stream) {
  const AllReduceOptions reduce = {.op = spec_.reduce_op};
  // The same calls of a Region and of a batch.
  const auto call = [&](auto& door, const Set& set) -> absl::Status {
    const TensorView& input = set.inputs[At(region.peer())];
    const TensorView& output = set.outputs[At(region.peer())];
    switch (spec_.op) {
      case PerfOp::kAllReduce:
        return door.AllReduce(input, output, reduce);
      case PerfOp::kGather:
        return door.Gather(input, output, spec_.root);
      case PerfOp::kAllGather:
        return door.AllGather(input, output);
    }
    return absl::OkStatus();
  };
  if (sets_.size() == 1 && !spec_.overlap) return call(region, sets_[0]);
  Batch batch = region.NewBatch();
  for (const Set& set : sets_) MP_RETURN_IF_ERROR(call(batch, set));
  if (!spec_.overlap) return batch.End();
  MP_ASSIGN_OR_RETURN(const Work work, batch.Start());
  return work.Wait(stream);
}

absl::Status Bench::PostAll() {
  Region& region = world_.region();
  const AllReduceOptions reduce = {.op = spec_.reduce_op};
  const auto& [inputs, outputs] = sets_[0];
  const TensorView& at_root = outputs[At(spec_.root)];
  if (!spec_.overlap) {
    switch (spec_.op) {
      case PerfOp::kAllReduce:
        return region.AllReduce(inputs, outputs, reduce);
      case PerfOp::kGather:
        return region.Gather(inputs, at_root, spec_.root);
      case PerfOp::kAllGather:
        return region.AllGather(inputs, outputs);
    }
  }
  absl::StatusOr<std::vector<Work>> works =
      spec_.op == PerfOp::kAllReduce ? region.StartAllReduce(inputs, outputs, reduce)
      : spec_.op == PerfOp::kGather  ? region.StartGather(inputs, at_root, spec_.root)
                                     : region.StartAllGather(inputs, outputs);
  MP_RETURN_IF_ERROR(works.status());
  for (int rank = 0; rank < ranks(); ++rank) {
    MP_RETURN_IF_ERROR((*works)[At(rank)].Wait(world_.stream(rank)));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Bench::Iterate(int64_t iterations, std::vector<double>* waits) {
  // Of the rank that tells the time, or of the only thread.
  const auto loop = [&](const auto& post, const auto& wait, bool tells) -> absl::Status {
    for (int64_t i = 0; i < iterations; ++i) {
      const double start = waits != nullptr ? Now() : 0;
      MP_RETURN_IF_ERROR(post());
      if (waits == nullptr) continue;
      MP_RETURN_IF_ERROR(wait());
      if (tells) waits->push_back(Now() - start);
    }
    return wait();
  };
  double seconds = 0;
  if (!spec_.by_rank) {
    const double start = Now();
    MP_RETURN_IF_ERROR(loop([&] { return PostAll(); }, [&] { return world_.Synchronize(); }, true));
    return Now() - start;
  }
  const absl::Status ran = world_.Run([&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());  // all start at once
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    const bool tells = rank.id() == 0;
    const double start = Now();
    MP_RETURN_IF_ERROR(loop([&] { return Post(rank.region(), rank.stream()); },
                            [&] { return rank.stream().Synchronize(); }, tells));
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    if (tells) seconds = Now() - start;
    return absl::OkStatus();
  });
  MP_RETURN_IF_ERROR(ran);
  return seconds;
}

absl::StatusOr<PerfTimes> Bench::Run() {
  PerfTimes times;
  for (const Set& set : sets_) MP_RETURN_IF_ERROR(Fill(set));
  MP_RETURN_IF_ERROR(Iterate(1, nullptr).status());
  for (const Set& set : sets_) {
    MP_ASSIGN_OR_RETURN(const int64_t wrong, CountWrongElements(set));
    times.wrong += wrong;
  }
  MP_RETURN_IF_ERROR(Iterate(spec_.warmup, nullptr).status());
  int64_t iterations = spec_.iterations;
  MP_ASSIGN_OR_RETURN(double seconds, Iterate(iterations, nullptr));
  while (seconds < absl::ToDoubleSeconds(spec_.at_least)) {
    iterations *= 2;
    MP_ASSIGN_OR_RETURN(seconds, Iterate(iterations, nullptr));
  }
  const auto operations = static_cast<double>(iterations * spec_.batch);
  times.average = seconds / operations;
  std::vector<double> waits;
  MP_RETURN_IF_ERROR(Iterate(std::min(iterations, kMostWaitedFor), &waits).status());
  std::sort(waits.begin(), waits.end());
  const double of_batch = spec_.batch;
  times.min = waits.front() / of_batch;
  times.median = waits[waits.size() / 2] / of_batch;
  times.p99 = waits[(waits.size() * 99 + 99) / 100 - 1] / of_batch;
  return times;
}

}  // namespace

absl::StatusOr<PerfRow> Measure(World& world, const PerfSpec& spec, int64_t bytes) {
  PerfRow row;
  {
    Bench bench(world, spec);
    MP_RETURN_IF_ERROR(bench.Open(bytes, /*in_place=*/false));
    row.bytes = bench.bytes();
    row.count = bench.count();
    MP_ASSIGN_OR_RETURN(row.out_of_place, bench.Run());
  }
  Bench bench(world, spec);
  MP_RETURN_IF_ERROR(bench.Open(bytes, /*in_place=*/true));
  MP_ASSIGN_OR_RETURN(row.in_place, bench.Run());
  return row;
}

double BusFactor(PerfOp op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  return op == PerfOp::kAllReduce ? 2 * others : others;
}

}  // namespace mp::command
