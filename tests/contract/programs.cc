// Random programs: operations of every kind, form, type, shape and size over 1 to 5 ranks and over
// some of them, the same on every rank, checked to the last byte.  Run step by step in seeded
// schedules, and as applications run them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;

CallSpec RandomReduction(Random& random, int ranks) {
  CallSpec spec;
  spec.kind = OpKind::kAllReduce;
  spec.dtype = random.Pick(ReducibleTypes());
  spec.op = static_cast<ReduceOp>(random.Below(IsReducibleFloat(spec.dtype) ? 5 : 4));
  if (IsReducibleFloat(spec.dtype) && random.OneIn(4)) spec.scale = 0.5;
  spec.shared_output = random.OneIn(5);
  if (!Under().reduces({spec.dtype, spec.op, spec.scale, ranks, spec.shared_output})) {
    spec.op = ReduceOp::kSum;
    spec.scale = 1;
  }
  std::vector<int64_t> sizes;
  for (int dims = random.Below(4); dims > 0; --dims) sizes.push_back(random.Below(7));
  if (random.OneIn(10)) sizes = {1000 + random.Below(9000)};
  spec.shape = Shape(sizes);
  if (!spec.shared_output) spec.inputs = static_cast<Inputs>(random.Below(3));
  return spec;
}

CallSpec RandomGather(Random& random, int ranks) {
  CallSpec spec;
  spec.kind = random.OneIn(2) ? OpKind::kGather : OpKind::kAllGather;
  spec.dtype = random.Pick(AllTypes());
  const int dims = 1 + random.Below(4);
  std::vector<int64_t> sizes;
  for (int i = 0; i < dims; ++i) sizes.push_back(random.Below(5));
  spec.shape = Shape(sizes);
  const int dim = random.Below(dims);
  spec.dim = random.OneIn(2) ? dim : dim - dims;
  for (int rank = 0; rank < ranks; ++rank) {
    spec.extents.push_back(random.OneIn(20) ? 2000 : random.Below(6));
  }
  spec.root = random.Below(ranks);
  spec.shared_output = spec.kind == OpKind::kAllGather && random.OneIn(4);
  const bool has_slots = dim == dims - 1 || spec.shape.Product(0, dim) <= 1;
  if (has_slots) spec.inputs = static_cast<Inputs>(random.Below(3));
  spec.input_layout = {.offset = random.Below(16), .gap = random.Below(3)};
  spec.output_layout = {.offset = random.Below(16), .gap = random.Below(3)};
  return spec;
}

enum class Form { kPost, kStart, kBatch, kStartBatch };

class Program {
 public:
  Program(World& world, uint64_t seed) : random_(seed) {
    std::vector<int> all = random_.Permutation(world.world_size());
    AddGroup(world, all);
    for (int i = 0; i < 2; ++i) {
      const auto some = 1 + static_cast<size_t>(random_.Below(world.world_size()));
      all = random_.Permutation(world.world_size());
      AddGroup(world, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(some)});
    }
    for (int i = 4 + random_.Below(12); i > 0; --i) AddStep(world);
  }

  size_t size() const { return steps_.size(); }

  // One rank's part of a step; the Work of the forms that have one.
  absl::Status Take(Rank& rank, size_t at, std::vector<Work>& works) {
    const Step& step = steps_[at];
    absl::StatusOr<RankRegion> region = regions_[step.group].ForRank(rank);
    if (!region.ok()) return absl::OkStatus();  // not a member
    if (step.form == Form::kPost) return calls_[step.begin].Post(*region);
    if (step.form == Form::kStart) {
      MP_ASSIGN_OR_RETURN(Work work, calls_[step.begin].Start(*region));
      works.push_back(work);
      return absl::OkStatus();
    }
    Batch batch = region->NewBatch();
    for (size_t i = step.begin; i < step.end; ++i) {
      MP_RETURN_IF_ERROR(calls_[i].AddTo(batch, region->peer()));
    }
    if (step.form == Form::kBatch) return batch.End();
    MP_ASSIGN_OR_RETURN(Work work, batch.Start());
    works.push_back(work);
    return absl::OkStatus();
  }

  void ExpectDone() const {
    for (const Call& call : calls_) call.ExpectDone();
  }

 private:
  struct Step {
    size_t group;
    Form form;
    size_t begin, end;  // its calls
  };

  void AddGroup(World& world, const std::vector<int>& ranks) {
    groups_.push_back(ranks);
    regions_.push_back(world.NewRegion(ranks).value());
  }

  void AddStep(World& world) {
    Step step{static_cast<size_t>(random_.Below(3)), static_cast<Form>(random_.Below(4)),
              calls_.size(), 0};
    const bool batch = step.form == Form::kBatch || step.form == Form::kStartBatch;
    for (int i = batch ? 1 + random_.Below(4) : 1; i > 0; --i) {
      const std::vector<int>& ranks = groups_[step.group];
      const int n = static_cast<int>(ranks.size());
      CallSpec spec = random_.OneIn(2) ? RandomReduction(random_, n) : RandomGather(random_, n);
      spec.seed = random_.Bits() % 1000000;
      calls_.emplace_back(world, ranks, spec);
    }
    step.end = calls_.size();
    steps_.push_back(step);
  }

  Random random_;
  std::vector<std::vector<int>> groups_;
  std::vector<Region> regions_;
  std::deque<Call> calls_;
  std::vector<Step> steps_;
};

TEST(Programs, GiveTheirResultsInEverySchedule) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("program ", seed));
    const int ranks = 1 + static_cast<int>(seed % 5);
    SteppedWorld stepped(ranks, seed);
    Program program(stepped.world(), seed);
    Random random(seed + 1000);
    std::vector<size_t> next(At(ranks), 0);
    std::vector<int> busy = random.Permutation(ranks);
    std::vector<Work> works;
    while (!busy.empty()) {
      const int id = random.Pick(busy);
      EXPECT_OK(program.Take(stepped.rank(id), next[At(id)]++, works));
      if (next[At(id)] == program.size()) std::erase(busy, id);
      // A look from time to time lets some of the work run early.
      if (random.OneIn(4)) {
        static_cast<void>(stepped.rank(id).stream().Synchronize(absl::ZeroDuration()));
      }
    }
    for (const Work& work : works) EXPECT_OK(work.Synchronize());
    EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
    program.ExpectDone();
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(Programs, GiveTheirResultsThroughEveryRankDoor) {
  for (const Door door : RankDoors()) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      SCOPED_TRACE(absl::StrCat("program ", seed, ", ", Name(door)));
      auto world = NewWorld(1 + static_cast<int>(seed % 5));
      Program program(*world, seed);
      std::vector<std::vector<Work>> works(At(world->world_size()));
      const auto take_all = [&](Rank& rank) -> absl::Status {
        std::vector<Work>& mine = works[At(rank.id())];
        for (size_t step = 0; step < program.size(); ++step) {
          MP_RETURN_IF_ERROR(program.Take(rank, step, mine));
        }
        for (const Work& work : mine) MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        return absl::OkStatus();
      };
      EXPECT_THAT(Drive(*world, door, take_all), Each(IsOk()));
      program.ExpectDone();
      if (::testing::Test::HasFailure()) break;
    }
  }
}

}  // namespace
}  // namespace mp::test
