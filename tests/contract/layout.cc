// LAY-1 to LAY-6: what is joined where, for every dimension, root, row pitch and order of devices.
// The values encode (rank, row, column), so that stacking cannot pass for joining.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// The number at `index` of rank's shard.
double Value(int rank, const std::vector<int64_t>& index) {
  double value = rank + 1;
  for (const int64_t i : index) value = value * 64 + static_cast<double>(i);
  return value;
}

// Calls visit(index) for every index of the shape, in row-major order.
template <typename Visitor>
void ForEachIndex(const Shape& shape, const Visitor& visit) {
  std::vector<int64_t> index(At(shape.rank()), 0);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    for (int d = shape.rank(); d-- > 0;) {
      index[At(d)] = rest % shape.dim(d);
      rest /= shape.dim(d);
    }
    visit(index);
  }
}

// One gather by the formula: out[i.., offset(r) + j, k..] = shard_r[i.., j, k..].
void ExpectJoined(World& world, OpKind kind, const Shape& shape, int dim, Layout layout) {
  SCOPED_TRACE(absl::StrCat(OpKindName(kind), shape.ToString(), " dim ", dim));
  const std::vector<int64_t> extents = {2, 3, 1};
  std::deque<Tensor> shards, outputs;
  for (int rank = 0; rank < 3; ++rank) {
    const Shape own = shape.With(dim, extents[At(rank)]);
    std::vector<double> values;
    ForEachIndex(own, [&](const auto& index) { values.push_back(Value(rank, index)); });
    shards.emplace_back(world.device(rank), DType::kF64, own, layout);
    shards.back().Fill(EncodeAll(DType::kF64, values));
    outputs.emplace_back(world.device(rank), DType::kF64, shape.With(dim, 6), layout);
  }
  const auto post = [&](Rank& rank) {
    const TensorView shard = shards[At(rank.id())].view(), output = outputs[At(rank.id())].view();
    const GatherOptions options{.dim = dim};
    return kind == OpKind::kGather ? rank.region().Gather(shard, output, 2, options)
                                   : rank.region().AllGather(shard, output, options);
  };
  EXPECT_THAT(Drive(world, post), Each(IsOk()));
  std::vector<double> joined;
  ForEachIndex(shape.With(dim, 6), [&](std::vector<int64_t> index) {
    int rank = 0;
    while (index[At(dim)] >= extents[At(rank)]) index[At(dim)] -= extents[At(rank++)];
    joined.push_back(Value(rank, index));
  });
  for (int rank = 0; rank < 3; ++rank) {
    if (kind == OpKind::kGather && rank != 2) {
      outputs[At(rank)].ExpectUntouched("output of a rank that is not the root");
    } else {
      outputs[At(rank)].ExpectElements(EncodeAll(DType::kF64, joined), absl::StrCat("rank ", rank));
    }
    shards[At(rank)].ExpectUntouched(absl::StrCat("shard of rank ", rank));
  }
}

TEST(Lay1, ShardsAreJoinedInRankOrderAlongEveryDimension) {
  auto world = NewWorld(3);
  for (const Shape& shape : {Shape{1}, Shape{4, 5}, Shape{2, 3, 4}, Shape{2, 3, 2, 5}}) {
    for (int dim = 0; dim < shape.rank(); ++dim) {
      for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
        ExpectJoined(*world, kind, shape, dim, {});
        ExpectJoined(*world, kind, shape, dim, {.offset = 8, .gap = 3});
      }
    }
  }
}

TEST(Lay1, TheOrderIsThatOfTheRegionsRanks) {
  auto world = NewWorld(4);
  for (const std::vector<int>& ranks :
       std::vector<std::vector<int>>{{2, 0, 3, 1}, {3, 2, 1, 0}, {1, 3}, {3, 0, 2}}) {
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion(ranks));
    for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
      Call call(*world, ranks, {.kind = kind, .shape = {3, 0}, .root = 1});
      EXPECT_OK(call.Post(region));
      EXPECT_OK(world->Synchronize());
      call.ExpectDone();
    }
  }
}

// Shards of one column block each, as `view` has them, gathered from 1 row and from 2.
TEST(Lay2, RowsWithOnePitchAreTakenWithOneRowAndWithMore) {
  for (const int64_t rows : {1, 2, 3}) {
    auto world = NewWorld(2);
    std::deque<Tensor> homes;  // of which each rank gives columns 2, 3 and 4
    std::vector<TensorView> shards;
    Bytes expected(static_cast<size_t>(rows) * 6 * 4);
    for (int rank = 0; rank < 2; ++rank) {
      homes.emplace_back(world->device(rank), DType::kI32, Shape{rows, 7});
      homes.back().Fill(AnyBits(DType::kI32, rows * 7, At(rank)));
      shards.push_back(homes.back().view().Columns(2, 3).value());
      const Bytes shard = ReadElements(shards.back());
      for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
        std::copy_n(&shard[row * 12], 12, &expected[row * 24 + At(rank) * 12]);
      }
    }
    Tensor wide(world->device(1), DType::kI32, {rows, 9});  // the result is its columns 1 to 6
    const TensorView output = wide.view().Columns(1, 6).value();
    const auto post = [&](Rank& rank) {
      return rank.region().Gather(shards[At(rank.id())], output, 1);
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    EXPECT_EQ(FirstDifference(DType::kI32, ReadElements(output), expected, false), "");
    for (const Tensor& home : homes) home.ExpectUntouched("a tensor that holds a shard");
  }
}

TEST(Lay2, ReductionsRefuseRowsWithGapsWhateverTheirNumber) {
  for (const int64_t rows : {1, 2}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows"));
    auto world = NewWorld(1);
    Tensor gaps(world->device(0), DType::kF32, {rows, 3}, {.gap = 2});
    Tensor dense(world->device(0), DType::kF32, {rows, 3});
    const auto post = [&](Rank& rank) {
      EXPECT_THAT(rank.region().AllReduce(gaps.view()),
                  KindIs(ErrorKind::kInvalidArgument, HasSubstr("pitch")));
      EXPECT_THAT(rank.region().AllReduce(dense.view(), gaps.view()),
                  KindIs(ErrorKind::kInvalidArgument, HasSubstr("pitch")));
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    gaps.ExpectUntouched("rows with gaps");
    dense.ExpectUntouched("dense rows");
  }
}

TEST(Lay2, APartOfAVectorIsDense) {
  auto world = NewWorld(2);
  std::deque<Tensor> vectors;
  std::vector<Bytes> parts;
  for (int rank = 0; rank < 2; ++rank) {
    vectors.emplace_back(world->device(rank), DType::kI32, Shape{9});
    vectors.back().Fill(EncodeAll(DType::kI32, {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  }
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(TensorView part, vectors[At(rank.id())].view().Columns(2, 4));
    return rank.region().AllReduce(part);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const Tensor& vector : vectors) {
    vector.ExpectElements(EncodeAll(DType::kI32, {0, 1, 4, 6, 8, 10, 6, 7, 8}), "a vector");
  }
}

TEST(Lay3, ADimensionCountsFromBothEnds) {
  auto world = NewWorld(2);
  for (int dims = 1; dims <= 4; ++dims) {
    for (int dim = -dims; dim < dims; ++dim) {
      std::vector<int64_t> sizes = {2, 3, 2, 3};
      sizes.resize(At(dims));
      Call call(*world, {.kind = OpKind::kAllGather, .shape = Shape(sizes), .dim = dim});
      const auto post = [&](Rank& rank) {
        for (const int outside : {dims, -dims - 1, 1 << 30, -(1 << 30)}) {
          EXPECT_THAT(rank.region().AllGather(call.input(rank.id()), call.output(rank.id()),
                                              {.dim = outside}),
                      KindIs(ErrorKind::kInvalidArgument, HasSubstr(absl::StrCat(outside))));
        }
        return call.Post(rank.region());
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Lay4, ARootIsAPositionInTheRegionOnAnyDevices) {
  for (const std::vector<int>& devices :
       std::vector<std::vector<int>>{{0, 1}, {5, 6}, {2, 0, 3, 1}}) {
    auto world = World::Create(NewBackend(7), {.devices = devices}).value();
    EXPECT_EQ(world->world_size(), static_cast<int>(devices.size()));
    for (int root = 0; root < world->world_size(); ++root) {
      EXPECT_EQ(world->device(root).index(), devices[At(root)]);
      Call call(*world, {.kind = OpKind::kGather, .shape = {2, 0}, .root = root});
      const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Lay4, ASubRegionCountsItsOwnRanks) {
  auto world = NewWorld(4);
  const std::vector<int> ranks = {3, 1};
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion(ranks));
  for (const int root : {0, 1}) {
    Call call(*world, ranks, {.kind = OpKind::kGather, .shape = {2, 0}, .root = root});
    const auto post = [&](Rank& rank) -> absl::Status {
      if (rank.id() % 2 == 0) return absl::OkStatus();
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      EXPECT_EQ(mine.peer(), rank.id() == 3 ? 0 : 1);
      EXPECT_EQ(mine.world_size(), 2);
      EXPECT_THAT(mine.Gather(call.input(mine.peer()), call.output(mine.peer()), 3),
                  KindIs(ErrorKind::kInvalidArgument, HasSubstr("3")));
      return call.Post(mine);
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    call.ExpectDone();
  }
}

TEST(Lay5, TheOutputOfARankThatIsNotTheRootIsNotLookedAt) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kGather, .shape = {2, 0}, .root = 1});
  const std::vector<TensorView> strange = {
      TensorView(), TensorView(nullptr, DType::kI8, {4, 4}), call.input(0), call.output(1),
      TensorView(reinterpret_cast<void*>(1), DType::kF64, {-3})};
  for (const TensorView& output : strange) {
    SCOPED_TRACE(output.ToString());
    const auto post = [&](Rank& rank) {
      return rank.region().Gather(call.input(rank.id()), rank.id() == 1 ? call.output(1) : output,
                                  1);
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  }
  call.ExpectDone();
}

// The result goes into columns 1 to 6 of a tensor of 11 columns, or into its rows 1 to 6.
TEST(Lay6, AResultCanBePartOfALargerTensor) {
  for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
    for (const int dim : {0, 1}) {
      auto world = NewWorld(3);
      Call call(*world, {.kind = kind, .shape = {4, 4}, .dim = dim});
      const Shape joined = call.output(0).shape();
      std::deque<Tensor> larger;
      std::vector<TensorView> parts;
      std::vector<Bytes> whole;
      for (int rank = 0; rank < 3; ++rank) {
        larger.emplace_back(world->device(rank), DType::kF32,
                            Shape{joined.dim(0) + 3, joined.dim(1) + 5});
        larger.back().Fill(AnyBits(DType::kF32, larger.back().view().shape().elements(), 9));
        const TensorView all = larger.back().view();
        parts.push_back(TensorView::Pitched(static_cast<char*>(all.data()) + all.row_pitch() + 4,
                                            DType::kF32, joined, all.row_pitch())
                            .value());
        Bytes expected = larger.back().Elements();
        for (int64_t row = 0; row < joined.dim(0); ++row) {
          std::copy_n(&call.expected()[static_cast<size_t>(row * joined.dim(1) * 4)],
                      joined.dim(1) * 4,
                      &expected[static_cast<size_t>((row + 1) * all.row_bytes() + 4)]);
        }
        whole.push_back(expected);
      }
      const auto post = [&](Rank& rank) {
        const int r = rank.id();
        return kind == OpKind::kGather
                   ? rank.region().Gather(call.input(r), parts[At(r)], 0, {.dim = dim})
                   : rank.region().AllGather(call.input(r), parts[At(r)], {.dim = dim});
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      for (int rank = 0; rank < (kind == OpKind::kGather ? 1 : 3); ++rank) {
        larger[At(rank)].ExpectElements(whole[At(rank)], absl::StrCat("rank ", rank));
      }
      call.ExpectUntouched();
    }
  }
}

}  // namespace
}  // namespace mp::test
