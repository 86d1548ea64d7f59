// ALI-1 to ALI-4: what may share memory with what, and for how long it is looked at.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

using Views = std::vector<TensorView>;

// One AllReduce with these inputs and outputs on a Region of its own; what the ranks were told.
std::vector<absl::Status> Reduce(World& world, const Views& xs, const Views& outputs,
                                 const AllReduceOptions& options = {}) {
  Region region = world.NewRegion({0, 1, 2}, {.name = "tensor"}).value();
  return Drive(world, [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return mine.AllReduce(xs[At(rank.id())], outputs[At(rank.id())], options);
  });
}

struct Tensors {
  explicit Tensors(World& world, const Shape& shape = {8}) {
    for (int rank = 0; rank < 3; ++rank) {
      xs.emplace_back(world.device(rank), DType::kF32, shape);
      xs.back().Fill(SmallNumbers(DType::kF32, shape.elements(), At(rank)));
      outputs.emplace_back(world.device(rank), DType::kF32, shape);
    }
  }
  static Views ViewsOf(const std::deque<Tensor>& tensors) {
    Views views;
    for (const Tensor& tensor : tensors) views.push_back(tensor.view());
    return views;
  }
  void ExpectUntouched() const {
    for (const Tensor& x : xs) x.ExpectUntouched("an input");
    for (const Tensor& output : outputs) output.ExpectUntouched("an output");
  }
  std::deque<Tensor> xs, outputs;
};

TEST(Ali1, InPlaceAndOutOfPlaceGiveTheSameBits) {
  auto world = NewWorld(3);
  for (const DType dtype : ReducibleTypes()) {
    for (const int64_t count : {1, 100, 20000}) {
      std::deque<Call> calls;
      for (const Inputs inputs : {Inputs::kInPlace, Inputs::kApart, Inputs::kMixed}) {
        calls.emplace_back(*world, CallSpec{.dtype = dtype, .shape = {count}, .inputs = inputs});
      }
      const auto post = [&](Rank& rank) -> absl::Status {
        for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(rank.region()));
        return absl::OkStatus();
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      for (const Call& call : calls) {
        call.ExpectDone();
        EXPECT_EQ(ReadElements(call.output(1)), ReadElements(calls[0].output(1)));
      }
    }
  }
}

TEST(Ali1, AnOutputGivenAsTheInputIsInPlace) {
  auto world = NewWorld(3);
  Tensors tensors(*world);
  const Views xs = Tensors::ViewsOf(tensors.xs);
  const Bytes expected =
      Fold(DType::kF32, ReduceOp::kSum, 1,
           {tensors.xs[0].Elements(), tensors.xs[1].Elements(), tensors.xs[2].Elements()});
  EXPECT_THAT(Reduce(*world, xs, xs), Each(IsOk()));
  for (const Tensor& x : tensors.xs) x.ExpectElements(expected, "a tensor reduced in place");
}

TEST(Ali2, ReductionsRefuseAnOutputThatOverlapsItsOwnInput) {
  auto world = NewWorld(2);
  Tensor x(world->device(0), DType::kF32, {16});
  x.Fill(SmallNumbers(DType::kF32, 16, 1));
  const auto part = [&](int64_t begin) { return x.view().Columns(begin, 8).value(); };
  const auto post = [&](Rank& rank) {
    if (rank.id() != 0) return absl::OkStatus();
    for (const int64_t shift : {-4, -1, 1, 4}) {
      EXPECT_THAT(rank.region().AllReduce(part(4), part(4 + shift)),
                  KindIs(ErrorKind::kInvalidArgument, HasSubstr("overlap")));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  x.ExpectUntouched("a tensor that was refused");
}

TEST(Ali2, ReductionsRefuseAnOutputThatOverlapsAPeersInput) {
  SKIP_UNLESS(reduces_any_memory);
  auto world = NewWorld(3);
  for (const int64_t shift : {0, 1, 7}) {
    Tensors tensors(*world);
    Views xs = Tensors::ViewsOf(tensors.xs), outputs = Tensors::ViewsOf(tensors.outputs);
    Tensor both(world->device(2), DType::kF32, {15});
    xs[2] = both.view().Columns(0, 8).value();
    outputs[0] = both.view().Columns(shift, 8).value();
    EXPECT_THAT(
        Reduce(*world, xs, outputs),
        Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("rank 0"), HasSubstr("rank 2")))));
    both.ExpectUntouched("what two ranks gave");
    tensors.ExpectUntouched();
  }
}

TEST(Ali3, OneOutputGivenTwiceIsRefusedAndBothRanksAreNamed) {
  SKIP_UNLESS(reduces_any_memory);
  auto world = NewWorld(3);
  Tensors tensors(*world);
  Views xs = Tensors::ViewsOf(tensors.xs), outputs = Tensors::ViewsOf(tensors.outputs);
  outputs[2] = outputs[1];
  EXPECT_THAT(Reduce(*world, xs, outputs),
              Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("rank 1"), HasSubstr("rank 2")))));
  EXPECT_THAT(world->region().AllReduce(xs, outputs),
              AnyOf(KindIs(ErrorKind::kInvalidArgument, HasSubstr("rank 1")),
                    KindIs(ErrorKind::kMismatch, HasSubstr("rank 1"))));
  tensors.ExpectUntouched();
}

TEST(Ali3, OneTensorReducedInPlaceByTwoRanksIsRefused) {
  SKIP_UNLESS(reduces_any_memory);
  auto world = NewWorld(3);
  Tensors tensors(*world);
  Views xs = Tensors::ViewsOf(tensors.xs);
  xs[2] = xs[0];
  EXPECT_THAT(Reduce(*world, xs, xs), Each(KindIs(ErrorKind::kMismatch)));
  tensors.ExpectUntouched();
}

TEST(Ali3, OneOutputOfAGatherGivenTwiceIsRefused) {
  auto world = NewWorld(3);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}));
  Call call(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return mine.AllGather(call.input(rank.id()), call.output(rank.id() == 2 ? 0 : rank.id()));
  };
  EXPECT_THAT(Drive(*world, post),
              Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("rank 0"), HasSubstr("rank 2")))));
  call.ExpectUntouched();
}

TEST(Ali3, ASharedOutputIsGivenByAll) {
  auto world = NewWorld(3);
  for (const int64_t count : {1, 77, 30011}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      Call reduce(*world, {.dtype = dtype, .shape = {count}, .shared_output = true});
      Call gather(*world, {.kind = OpKind::kAllGather,
                           .dtype = dtype,
                           .shape = {2, 0},
                           .extents = {count, 1, 0},
                           .shared_output = true});
      const auto post = [&](Rank& rank) -> absl::Status {
        MP_RETURN_IF_ERROR(reduce.Post(rank.region()));
        return gather.Post(rank.region());
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      reduce.ExpectDone();
      gather.ExpectDone();
    }
  }
}

TEST(Ali3, ASharedOutputThatIsNotOneIsRefused) {
  auto world = NewWorld(3);
  Tensors tensors(*world);
  const Views xs = Tensors::ViewsOf(tensors.xs);
  const TensorView shared = tensors.outputs[0].view(), other = tensors.outputs[1].view();
  EXPECT_THAT(Reduce(*world, xs, {shared, shared, other}, {.shared_output = true}),
              Each(KindIs(ErrorKind::kMismatch, HasSubstr("ranks 0 and 2"))));
  tensors.ExpectUntouched();
}

TEST(Ali3, ASharedInputIsRead) {
  SKIP_UNLESS(shares_devices);
  // Two ranks of one device give one tensor to read.
  auto world = World::Create(NewBackend(2), {.devices = {0, 0, 1}}).value();
  Tensors tensors(*world);
  Views xs = Tensors::ViewsOf(tensors.xs);
  xs[1] = xs[0];
  const Bytes one = tensors.xs[0].Elements();
  EXPECT_THAT(Reduce(*world, xs, Tensors::ViewsOf(tensors.outputs)), Each(IsOk()));
  for (const Tensor& output : tensors.outputs) {
    output.ExpectElements(
        Fold(DType::kF32, ReduceOp::kSum, 1, {one, one, tensors.xs[2].Elements()}), "an output");
  }
  tensors.xs[0].ExpectUntouched("the input of two ranks");
}

TEST(Ali4, AnInputMayBeOverwrittenOnceTheWorkIsDone) {
  auto world = NewWorld(3);
  for (int round = 0; round < 20; ++round) {
    Call call(*world, {.kind = OpKind::kAllGather, .shape = {50, 0}, .seed = At(round)});
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
      MP_RETURN_IF_ERROR(work.Synchronize());
      WriteElements(call.input(rank.id()), Bytes(call.contents(rank.id()).size(), 0xEE));
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ReadElements(call.output(rank)), call.expected());
    }
  }
}

TEST(Ali4, ViewsHandlesAndBatchesAreNotNeededOnceACallHasReturned) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2);
  Call call(stepped.world(), {.kind = OpKind::kAllGather, .shape = {3, 0}});
  Call batched(stepped.world(), {.inputs = Inputs::kInPlace});
  for (int id = 0; id < 2; ++id) {
    auto input = std::make_unique<TensorView>(call.input(id));
    auto output = std::make_unique<TensorView>(call.output(id));
    EXPECT_OK(stepped.region(id).AllGather(*input, *output));
    auto batch = std::make_unique<Batch>(stepped.region(id).NewBatch());
    EXPECT_OK(batched.AddTo(*batch, id));
    EXPECT_OK(batch->Start());  // and the Work is dropped
  }
  for (const absl::Status& told : stepped.SynchronizeAll()) EXPECT_OK(told);
  EXPECT_OK(stepped.world().Synchronize());  // the comm streams too
  call.ExpectDone();
  batched.ExpectDone();
}

}  // namespace
}  // namespace mp::test
