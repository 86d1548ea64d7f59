// STR-8: fast ranks write step k + 1 while a slow peer still reads step k.  Inputs, slots and
// outputs are used again and again; on every rank a kernel writes the input of a step, then comes
// the operation, then a kernel reads the whole result.  A reader that sees anything but its own
// step's data shows that an edge of the order is missing.  Seeded schedules look for it; the pool
// under TSan finds it as a race.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::Each;

enum class Form {
  kInputs,           // AllGather of inputs that lie apart, into one output for each rank
  kReduction,        // AllReduce in place
  kSharedReduction,  // AllReduce into one output for all ranks
  kSharedGather,     // AllGather of slots into one of two shared outputs in turn
  kTwoOutputs,       // Gather of slots into one of two outputs in turn
  kAcquired,         // Gather of slots into one output, with AcquireSlot
  kBare,             // the same without: the program is wrong
};
constexpr Form kRightForms[] = {Form::kInputs,       Form::kReduction,  Form::kSharedReduction,
                                Form::kSharedGather, Form::kTwoOutputs, Form::kAcquired};

const char* Name(Form form) {
  switch (form) {
    case Form::kInputs:
      return "inputs";
    case Form::kReduction:
      return "reduction";
    case Form::kSharedReduction:
      return "shared reduction";
    case Form::kSharedGather:
      return "shared gather";
    case Form::kTwoOutputs:
      return "two outputs";
    case Form::kAcquired:
      return "acquired slots";
    case Form::kBare:
      return "bare slots";
  }
  return "?";
}

class Program {
 public:
  static constexpr int kRanks = 3, kSteps = 6;

  Program(World& world, Form form, bool overlapped) : form_(form), overlapped_(overlapped) {
    const bool gathers = form != Form::kReduction && form != Form::kSharedReduction;
    for (int rank = 0; rank < kRanks; ++rank) {
      inputs_.emplace_back(world.device(rank), DType::kI32, kShard);
    }
    for (int i = 0; i < 2 * kRanks; ++i) {  // two for each rank
      outputs_.emplace_back(world.device(i / 2), DType::kI32, gathers ? kFull : kShard);
    }
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Bytes> parts;
      for (int rank = 0; rank < kRanks; ++rank) parts.push_back(Data(step, rank));
      expected_.push_back(gathers ? Join(DType::kI32, std::vector<Shape>(kRanks, kShard), 1, parts)
                                  : Fold(DType::kI32, ReduceOp::kSum, 1, parts));
    }
  }

  // Queues a rank's part of a step.
  absl::Status Queue(Rank& rank, int step) {
    const int id = rank.id();
    RankRegion& region = rank.region();
    if (form_ == Form::kAcquired) MP_RETURN_IF_ERROR(region.AcquireSlot());
    const TensorView input = InputOf(id, step), output = OutputOf(id, step);
    MP_RETURN_IF_ERROR(rank.stream().Launch(
        Under().kernel([input, id, step] { WriteElements(input, Data(step, id)); })));
    if (overlapped_) {
      MP_ASSIGN_OR_RETURN(Work work, Start(region, input, output));
      MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
    } else {
      MP_RETURN_IF_ERROR(Post(region, input, output));
    }
    if (ToRoot() && id != 0) return absl::OkStatus();
    return rank.stream().Launch(Under().kernel([this, output, step] {
      ++reads_;
      if (ReadElements(output) != expected_[At(step)]) ++wrong_;
    }));
  }

  int reads() const { return reads_; }
  int wrong() const { return wrong_; }
  int reads_in_all() const { return kSteps * (ToRoot() ? 1 : kRanks); }

 private:
  static inline const Shape kShard = {2, 3};
  static inline const Shape kFull = {2, 9};

  static Bytes Data(int step, int rank) {
    return AnyBits(DType::kI32, 6, static_cast<uint64_t>(100 * step + rank));
  }
  bool ToRoot() const {
    return form_ == Form::kTwoOutputs || form_ == Form::kAcquired || form_ == Form::kBare;
  }
  TensorView OutputOf(int rank, int step) const {
    const bool shared = form_ != Form::kInputs && form_ != Form::kReduction;
    const bool in_turn = form_ == Form::kSharedGather || form_ == Form::kTwoOutputs;
    return outputs_[At((shared ? 0 : 2 * rank) + (in_turn ? step % 2 : 0))].view();
  }
  TensorView InputOf(int rank, int step) const {
    if (form_ == Form::kInputs || form_ == Form::kSharedReduction) return inputs_[At(rank)].view();
    if (form_ == Form::kReduction) return OutputOf(rank, step);
    return SlotOf(OutputOf(rank, step), 1, 3 * rank, 3);
  }
  absl::Status Post(RankRegion& region, const TensorView& input, const TensorView& output) const {
    if (ToRoot()) return region.Gather(input, output, 0);
    if (form_ == Form::kInputs) return region.AllGather(input, output);
    if (form_ == Form::kSharedGather) {
      return region.AllGather(input, output, {.shared_output = true});
    }
    return region.AllReduce(input, output, {.shared_output = form_ == Form::kSharedReduction});
  }
  absl::StatusOr<Work> Start(RankRegion& region, const TensorView& input,
                             const TensorView& output) const {
    if (ToRoot()) return region.StartGather(input, output, 0);
    if (form_ == Form::kInputs) return region.StartAllGather(input, output);
    if (form_ == Form::kSharedGather) {
      return region.StartAllGather(input, output, {.shared_output = true});
    }
    return region.StartAllReduce(input, output, {.shared_output = form_ == Form::kSharedReduction});
  }

  const Form form_;
  const bool overlapped_;
  std::deque<Tensor> inputs_, outputs_;
  std::vector<Bytes> expected_;  // step -> the result
  std::atomic<int> reads_{0}, wrong_{0};
};

// The number of wrong reads in one schedule, in which each rank queues as far ahead of the others
// as the seed says.
int WrongReads(Form form, bool overlapped, uint64_t seed) {
  SteppedWorld stepped(Program::kRanks, seed);
  Program program(stepped.world(), form, overlapped);
  Random random(seed);
  std::vector<int> next(Program::kRanks, 0), busy = {0, 1, 2};
  while (!busy.empty()) {
    const int id = random.Pick(busy);
    for (int some = random.Below(4); some >= 0 && next[At(id)] < Program::kSteps; --some) {
      EXPECT_OK(program.Queue(stepped.rank(id), next[At(id)]++));
    }
    if (next[At(id)] == Program::kSteps) std::erase(busy, id);
  }
  for (const int id : random.Permutation(Program::kRanks)) EXPECT_OK(stepped.Synchronize(id));
  EXPECT_EQ(program.reads(), program.reads_in_all());
  return program.wrong();
}

TEST(Str8, EveryReaderSeesItsOwnStepInEverySchedule) {
  SKIP_UNLESS(doors_never_wait);
  for (const Form form : kRightForms) {
    for (const bool overlapped : {false, true}) {
      for (uint64_t seed = 1; seed <= 200; ++seed) {
        ASSERT_EQ(WrongReads(form, overlapped, seed), 0)
            << Name(form) << (overlapped ? ", overlapped" : "") << ", schedule " << seed;
      }
    }
  }
}

TEST(Str8, TheSchedulesWouldShowAMissingEdge) {
  SKIP_UNLESS(doors_never_wait);
  for (const bool overlapped : {false, true}) {
    int schedules = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      if (WrongReads(Form::kBare, overlapped, seed) > 0) ++schedules;
    }
    EXPECT_GT(schedules, 10);
  }
}

TEST(Str8, EveryReaderSeesItsOwnStepOnManyThreads) {
  for (const Form form : kRightForms) {
    for (const bool overlapped : {false, true}) {
      SCOPED_TRACE(absl::StrCat(Name(form), overlapped ? ", overlapped" : ""));
      auto world = NewWorld(Program::kRanks);
      for (int round = 0; round < 10; ++round) {
        Program program(*world, form, overlapped);
        const auto post = [&](Rank& rank) -> absl::Status {
          for (int step = 0; step < Program::kSteps; ++step) {
            MP_RETURN_IF_ERROR(program.Queue(rank, step));
          }
          return absl::OkStatus();
        };
        EXPECT_THAT(Drive(*world, post), Each(IsOk()));
        EXPECT_EQ(program.reads(), program.reads_in_all());
        EXPECT_EQ(program.wrong(), 0);
      }
    }
  }
}

}  // namespace
}  // namespace mp::test
