// SIZ-1 to SIZ-5, SIZ-7, SIZ-8: every size from nothing on, at every alignment, exact to the last
// element and not a byte beyond it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kSizes[] = {1,  2,  3,  7,   8,   9,   15,   16,   17,   31,   32,   33,
                              63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097};

// Makes a call of each spec, all of them on every rank, and checks every byte.
void ExpectAllDone(World& world, const std::vector<CallSpec>& specs) {
  std::deque<Call> calls;
  for (const CallSpec& spec : specs) calls.emplace_back(world, spec);
  const auto post = [&](Rank& rank) -> absl::Status {
    for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(rank.region()));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(world, post), Each(IsOk()));
  for (const Call& call : calls) call.ExpectDone();
}

TEST(Siz1, NothingIsAsGoodAsAnythingElse) {
  for (const int ranks : {1, 2, 3}) {
    auto world = NewWorld(ranks);
    std::vector<CallSpec> specs;
    for (const DType dtype : ReducibleTypes()) {
      for (const Shape& shape : {Shape{0}, Shape{1, 0, 2}, Shape{0, 5}}) {
        for (const Inputs inputs : {Inputs::kInPlace, Inputs::kApart}) {
          specs.push_back({.dtype = dtype, .shape = shape, .inputs = inputs});
        }
      }
    }
    for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
      specs.push_back({.kind = kind, .shape = {0}, .extents = std::vector<int64_t>(At(ranks), 0)});
      specs.push_back({.kind = kind, .shape = {1, 0, 2}});  // rows of nothing, joined
      specs.push_back({.kind = kind, .shape = {0, 5}});
      specs.push_back({.kind = kind, .shape = {3, 1, 0}, .dim = 0});
    }
    ExpectAllDone(*world, specs);
  }
}

TEST(Siz1, ANothingInAnyDimensionIsJoinedAlongAnyOther) {
  auto world = NewWorld(3);
  std::vector<CallSpec> specs;
  for (int empty = 0; empty < 4; ++empty) {
    for (int dim = 0; dim < 4; ++dim) {
      if (dim == empty) continue;
      for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
        specs.push_back({.kind = kind,
                         .dtype = DType::kF64,
                         .shape = Shape({2, 3, 2, 3}).With(empty, 0),
                         .root = 2,
                         .dim = dim});
      }
    }
  }
  ExpectAllDone(*world, specs);
}

TEST(Siz1, EmptyTensorsNeedNoMemory) {
  auto world = NewWorld(2);
  const auto empty = [](const Shape& shape) { return TensorView(nullptr, DType::kF32, shape); };
  const auto post = [&](Rank& rank) -> absl::Status {
    RankRegion& region = rank.region();
    MP_RETURN_IF_ERROR(region.AllReduce(empty({0})));
    MP_RETURN_IF_ERROR(region.AllReduce(empty({1, 0, 2}), empty({1, 0, 2})));
    MP_RETURN_IF_ERROR(region.Gather(empty({0, 5}), empty({0, 10}), 1));
    return region.AllGather(empty({4, 0}), empty({4, 0}));
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  const std::vector<TensorView> nothings(2, empty({0, 3}));
  EXPECT_OK(world->region().AllReduce(nothings));
  EXPECT_OK(world->Synchronize());
}

TEST(Siz2, EmptyShardsAddNothing) {
  const std::vector<std::vector<int64_t>> widths = {
      {0, 3, 0, 2}, {3, 0, 0, 0}, {0, 0, 0, 1}, {0, 1, 1, 0}, {5, 0, 7, 0}};
  for (const Door door : RankDoors()) {
    auto world = NewWorld(4);
    for (const auto& extents : widths) {
      for (const int dim : {0, 1, 2}) {
        for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
          Call call(*world, {.kind = kind, .shape = {2, 3, 2}, .extents = extents, .dim = dim});
          const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
          EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
          call.ExpectDone();
        }
      }
    }
  }
}

TEST(Siz2, AnEmptyShardNeedsNoMemory) {
  auto world = NewWorld(2);
  Tensor shard(world->device(0), DType::kI8, {2, 3}), out(world->device(0), DType::kI8, {2, 3});
  shard.Fill(AnyBits(DType::kI8, 6, 1));
  const auto post = [&](Rank& rank) {
    const TensorView empty(nullptr, DType::kI8, {2, 0});
    return rank.region().Gather(rank.id() == 0 ? shard.view() : empty, out.view(), 0);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  out.ExpectElements(shard.Elements(), "output of the root");
}

TEST(Siz3, ShardsThatAreAllEmptyGiveAnEmptyResult) {
  for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
    auto world = NewWorld(3);
    ExpectAllDone(*world, {{.kind = kind, .shape = {3, 0}, .extents = {0, 0, 0}},
                           {.kind = kind, .shape = {0}, .extents = {0, 0, 0}},
                           {.kind = kind, .shape = {0, 4}, .extents = {0, 0, 0}, .dim = 0}});
  }
}

TEST(Siz4, ReductionsAreExactAtEverySizeAndAlignment) {
  auto world = NewWorld(3);
  for (const DType dtype : ReducibleTypes()) {
    std::vector<CallSpec> specs;
    int64_t turn = 0;
    for (const int64_t size : kSizes) {
      const bool every_offset = size == 3 || size == 17 || size == 65 || size == 1025;
      for (int64_t i = 0; i < (every_offset ? 16 : 1); ++i, ++turn) {
        const int64_t unit = Under().reduces_at_any_byte ? 1 : SizeOf(dtype);
        specs.push_back({.dtype = dtype,
                         .shape = {size},
                         .inputs = static_cast<Inputs>(turn % 3),
                         .input_layout = {.offset = turn * unit % 16},
                         .output_layout = {.offset = (turn * 7 + 3) * unit % 16},
                         .seed = static_cast<uint64_t>(turn)});
      }
    }
    ExpectAllDone(*world, specs);
  }
}

TEST(Siz4, GathersAreExactAtEverySizeAndAlignment) {
  auto world = NewWorld(3);
  for (const DType dtype : AllTypes()) {
    std::vector<CallSpec> specs;
    int64_t turn = 0;
    for (const int64_t size : kSizes) {
      const bool every_offset = size == 3 || size == 17 || size == 65;
      for (int64_t i = 0; i < (every_offset ? 16 : 1); ++i, ++turn) {
        specs.push_back({.kind = turn % 2 == 0 ? OpKind::kGather : OpKind::kAllGather,
                         .dtype = dtype,
                         .shape = {1 + turn % 3, 0},
                         .extents = {size, turn % 5, size / 2 + 1},
                         .root = static_cast<int>(turn % 3),
                         .dim = 1,
                         .input_layout = {.offset = turn % 16, .gap = turn % 4},
                         .output_layout = {.offset = (turn * 7 + 3) % 16, .gap = turn % 3},
                         .seed = static_cast<uint64_t>(turn)});
      }
    }
    ExpectAllDone(*world, specs);
  }
}

// Memory in which a pattern of elements comes again and again, with a guard on both sides.
class Repeated {
 public:
  static constexpr int64_t kGuard = 64, kPeriod = 4099;

  Repeated(Device& device, DType dtype, int64_t count, const Bytes& pattern)
      : memory_(device.Allocate(DType::kU8, {count * SizeOf(dtype) + 2 * kGuard}).value()),
        view_(static_cast<char*>(memory_.data()) + kGuard, dtype, {count}) {
    const Bytes guard(kGuard, 0xA5);
    Under().copy_in(memory_.data(), guard.data(), guard.size());
    Under().copy_in(end(), guard.data(), guard.size());
    ForEachPeriod(pattern,
                  [&](char* at, size_t bytes) { Under().copy_in(at, pattern.data(), bytes); });
  }
  const TensorView& view() const { return view_; }

  void Expect(const Bytes& pattern) const {
    Bytes seen(pattern.size());
    int wrong = 0;
    ForEachPeriod(pattern, [&](const char* at, size_t bytes) {
      Under().copy_out(seen.data(), at, bytes);
      if (std::memcmp(seen.data(), pattern.data(), bytes) != 0) ++wrong;
    });
    EXPECT_EQ(wrong, 0) << DTypeName(view_.dtype());
    for (const void* side : {memory_.data(), static_cast<void*>(end())}) {
      Bytes guard(kGuard);
      Under().copy_out(guard.data(), side, guard.size());
      EXPECT_EQ(guard, Bytes(kGuard, 0xA5));
    }
  }

 private:
  char* end() const { return static_cast<char*>(view_.data()) + view_.size_bytes(); }
  template <typename Visitor>
  void ForEachPeriod(const Bytes& pattern, const Visitor& visit) const {
    for (char* at = static_cast<char*>(view_.data()); at < end(); at += pattern.size()) {
      visit(at, std::min(pattern.size(), static_cast<size_t>(end() - at)));
    }
  }

  Buffer memory_;
  TensorView view_;
};

TEST(Siz4, LargeReductionsAreExact) {
  constexpr int64_t kLarge = 10556587;
  auto world = NewWorld(2);
  for (const DType dtype : ReducibleTypes()) {
    std::deque<Repeated> tensors;
    std::vector<Bytes> patterns;
    for (int rank = 0; rank < 2; ++rank) {
      patterns.push_back(Under().folds_in_rank_order
                             ? WildNumbers(dtype, Repeated::kPeriod, At(rank))
                             : SmallNumbers(dtype, Repeated::kPeriod, At(rank)));
      tensors.emplace_back(world->device(rank), dtype, kLarge, patterns.back());
    }
    const auto post = [&](Rank& rank) {
      return rank.region().AllReduce(tensors[At(rank.id())].view());
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    const Bytes expected = Fold(dtype, ReduceOp::kSum, 1, patterns);
    for (const Repeated& tensor : tensors) tensor.Expect(expected);
  }
}

TEST(Siz4, LargeGathersAreExact) {
  auto world = NewWorld(3);
  ExpectAllDone(*world, {{.kind = OpKind::kGather, .shape = {0}, .extents = {1500007, 1, 700001}},
                         {.kind = OpKind::kAllGather,
                          .dtype = DType::kU8,
                          .shape = {1025, 0},
                          .extents = {1023, 0, 513},
                          .output_layout = {.gap = 5}},
                         {.kind = OpKind::kAllGather,
                          .dtype = DType::kI16,
                          .shape = {0, 40009},
                          .extents = {1, 3, 2},
                          .dim = 0,
                          .input_layout = {.offset = 6, .gap = 3}}});
}

TEST(Siz4, ReductionsAreExactForEveryNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    auto world = NewWorld(ranks);
    std::vector<CallSpec> specs;
    for (const int64_t size : {1000, 5461, 65537, 100003}) {
      specs.push_back({.shape = {size}, .inputs = Inputs::kInPlace});
      specs.push_back({.dtype = DType::kBF16, .shape = {size}, .inputs = Inputs::kMixed});
    }
    ExpectAllDone(*world, specs);
  }
}

TEST(Siz5, SizesThatOverflowAreInvalid) {
  auto world = NewWorld(2);
  constexpr int64_t kHuge = int64_t{1} << 62;
  char byte = 0;
  const auto view = [&](const Shape& shape, DType dtype = DType::kU8) {
    return TensorView(&byte, dtype, shape);
  };
  const auto post = [&](Rank& rank) {
    RankRegion& region = rank.region();
    EXPECT_THAT(region.AllReduce(view({kHuge, 4})),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(absl::StrCat(kHuge))));
    EXPECT_THAT(region.AllReduce(view({kHuge}, DType::kF32)),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(absl::StrCat(kHuge))));
    EXPECT_THAT(region.AllGather(view({3, kHuge}), view({3, kHuge})),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(absl::StrCat(kHuge))));
    EXPECT_THAT(region.AllGather(view({-1, 3}), view({-1, 6})),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("-1")));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
}

TEST(Siz5, AJoinedSizeThatOverflowsIsAnError) {
  // Five times 2^62 is 2^62 again in 64 bits.  There are no rows, so no memory is needed.
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const Door door : RankDoors()) {
    auto world = NewWorld(5);
    const TensorView shard(nullptr, DType::kU8, {0, kHuge});
    const auto post = [&](Rank& rank) { return rank.region().AllGather(shard, shard); };
    EXPECT_THAT(Drive(*world, door, post),
                Each(AnyOf(KindIs(ErrorKind::kMismatch), KindIs(ErrorKind::kInvalidArgument))));
  }
}

TEST(Siz7, ANumberCanBeReducedButNotGathered) {
  auto world = NewWorld(3);
  ExpectAllDone(*world, {{.shape = {}, .inputs = Inputs::kInPlace},
                         {.dtype = DType::kF16, .shape = {}},
                         {.dtype = DType::kI64, .shape = {}, .op = ReduceOp::kMin}});
  Call call(*world, {.shape = {}});
  const auto post = [&](Rank& rank) {
    const TensorView& x = call.input(rank.id());
    EXPECT_THAT(rank.region().Gather(x, call.output(rank.id()), 0),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("dimension")));
    EXPECT_THAT(rank.region().AllGather(x, call.output(rank.id()), {.dim = 0}),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("dimension")));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectUntouched();
}

TEST(Siz8, WidthsMayDiffer) {
  auto three = NewWorld(3);
  for (const DType dtype : AllTypes()) {
    std::vector<CallSpec> specs;
    for (const auto& extents : std::vector<std::vector<int64_t>>{{3, 3, 1}, {1, 0, 5}}) {
      for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
        for (const int dim : {0, 1, 2}) {
          specs.push_back({.kind = kind,
                           .dtype = dtype,
                           .shape = {2, 3, 4},
                           .extents = extents,
                           .root = 2,
                           .dim = dim});
        }
      }
    }
    ExpectAllDone(*three, specs);
  }
}

TEST(Siz8, AVocabularyThatDoesNotDivide) {
  constexpr int64_t kVocabulary = 50257;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    auto world = NewWorld(ranks);
    std::vector<int64_t> extents;
    for (int rank = 0; rank < ranks; ++rank) {
      extents.push_back(kVocabulary / ranks + (rank < kVocabulary % ranks ? 1 : 0));
    }
    ExpectAllDone(
        *world,
        {{.kind = OpKind::kGather, .shape = {3, 0}, .extents = extents},
         {.kind = OpKind::kAllGather, .dtype = DType::kF16, .shape = {2, 0}, .extents = extents}});
  }
}

TEST(Siz6, NothingChangesWhereTheCountOfOperationsPassesAPowerOfTwo) {
  for (const int bits : {31, 32, 63}) {
    for (const int max_lead : {1, 4, 256}) {
      auto world = NewWorld(3);
      const uint64_t first = (uint64_t{1} << bits) - 5;
      ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}, {.max_lead = max_lead,
                                                                       .first_sequence = first}));
      std::deque<Call> calls;
      for (int i = 0; i < 12; ++i) {
        calls.emplace_back(
            *world,
            CallSpec{.kind = i % 2 == 0 ? OpKind::kAllReduce : OpKind::kAllGather, .seed = At(i)});
      }
      const auto post = [&](Rank& rank) -> absl::Status {
        MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
        for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(mine));
        return absl::OkStatus();
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      for (const Call& call : calls) call.ExpectDone();
      Call odd(*world, {.shape = {41}});
      const auto differ = [&](Rank& rank) -> absl::Status {
        MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
        return (rank.id() == 1 ? odd : calls[0]).Post(mine);
      };
      EXPECT_THAT(Drive(*world, differ),
                  Each(KindIs(ErrorKind::kMismatch,
                              HasSubstr(absl::StrCat("operation ", first + 12, ":")))));
    }
  }
}

}  // namespace
}  // namespace mp::test
