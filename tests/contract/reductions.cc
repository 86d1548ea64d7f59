// NUM-1 to NUM-9: what a reduction gives, to the bit where the backend promises an order of adding,
// and within the bound of any order where it does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kAvg};

// The reduction of one tensor of numbers for each rank, in place or not, on every rank.
std::vector<Bytes> Reduced(World& world, DType dtype, const std::vector<Bytes>& inputs,
                           const AllReduceOptions& options, bool in_place = true) {
  const int64_t count = static_cast<int64_t>(inputs[0].size()) / SizeOf(dtype);
  std::deque<Tensor> xs, outputs;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    xs.emplace_back(world.device(rank), dtype, Shape{count});
    xs.back().Fill(inputs[At(rank)]);
    outputs.emplace_back(world.device(rank), dtype, Shape{count});
  }
  const auto post = [&](Rank& rank) {
    const TensorView& x = xs[At(rank.id())].view();
    return in_place ? rank.region().AllReduce(x, options)
                    : rank.region().AllReduce(x, outputs[At(rank.id())].view(), options);
  };
  EXPECT_THAT(Drive(world, post), Each(IsOk()));
  std::vector<Bytes> results;
  for (const Tensor& tensor : in_place ? xs : outputs) results.push_back(tensor.Elements());
  return results;
}

// The same of one number for each rank; every rank must have the same bits.
Bytes ReducedNumber(World& world, DType dtype, const std::vector<double>& numbers,
                    const AllReduceOptions& options = {}) {
  std::vector<Bytes> inputs;
  for (const double number : numbers) inputs.push_back(EncodeAll(dtype, {number}));
  const std::vector<Bytes> results = Reduced(world, dtype, inputs, options);
  EXPECT_THAT(results, Each(results[0]));
  return results[0];
}

double ReducedValue(World& world, DType dtype, const std::vector<double>& numbers,
                    const AllReduceOptions& options = {}) {
  return Decode(dtype, ReducedNumber(world, dtype, numbers, options).data());
}

TEST(Num1, SumsAreTheFoldInRankOrderOnEveryRank) {
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : kOps) {
        if (!Under().reduces({dtype, op, 1, ranks, false})) continue;
        for (const bool in_place : {true, false}) {
          SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", DTypeName(dtype), " ", ReduceOpName(op)));
          std::vector<Bytes> inputs;
          for (int rank = 0; rank < ranks; ++rank) {
            inputs.push_back(WildNumbers(dtype, 1000, At(rank) + 1));
          }
          const auto results = Reduced(*world, dtype, inputs, {.op = op}, in_place);
          EXPECT_THAT(results, Each(results[0]));
          if (Under().folds_in_rank_order) {
            EXPECT_EQ(FirstDifference(dtype, results[0], Fold(dtype, op, 1, inputs), true), "");
          }
          if (op == ReduceOp::kSum || op == ReduceOp::kAvg) {
            EXPECT_EQ(SumBoundViolation(dtype, op, inputs, results[0]), "");
          }
        }
      }
    }
  }
}

TEST(Num1, TheOrderOfArrivalDoesNotMatter) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("schedule ", seed));
    Random random(seed);
    const int ranks = 2 + random.Below(4);
    SteppedWorld stepped(ranks, seed);
    Call call(stepped.world(), {.dtype = random.Pick(ReducibleTypes()),
                                .shape = {1 + random.Below(40)},
                                .inputs = static_cast<Inputs>(random.Below(3)),
                                .contents = Contents::kWild,
                                .seed = seed});
    for (const int id : random.Permutation(ranks)) EXPECT_OK(call.Post(stepped.region(id)));
    for (const int id : random.Permutation(ranks)) EXPECT_OK(stepped.Synchronize(id));
    call.ExpectDone();
  }
}

TEST(Num1, OneByOneOrInABatchTheBitsAreTheSame) {
  auto world = NewWorld(4);
  std::deque<Call> alone, together;
  for (int i = 0; i < 12; ++i) {
    const CallSpec spec{.dtype = kFloats[i % 4], .shape = {1 + 300 * i}, .seed = 7};
    alone.emplace_back(*world, spec);
    together.emplace_back(*world, spec);
  }
  const auto post = [&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    for (const Call& call : together) MP_RETURN_IF_ERROR(call.AddTo(batch, rank.id()));
    MP_RETURN_IF_ERROR(batch.End());
    for (const Call& call : alone) MP_RETURN_IF_ERROR(call.Post(rank.region()));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(ReadElements(alone[i].output(0)), ReadElements(together[i].output(0)));
    together[i].ExpectDone();
  }
}

TEST(Num2, SixteenBitsAreSummedInF32AndRoundedOnce) {
  SKIP_UNLESS(folds_in_rank_order);
  auto world = NewWorld(4);
  // Rounded at every step, the small ones would be lost one by one.
  EXPECT_EQ(ReducedValue(*world, DType::kBF16, {256, 1, 1, 1}), 260);      // 259 to nearest
  EXPECT_EQ(ReducedValue(*world, DType::kBF16, {256, 0.5, 0.5, 0}), 256);  // a tie, to even
  EXPECT_EQ(ReducedValue(*world, DType::kBF16, {258, 0.5, 0.5, 0}), 260);  // a tie, to even
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {2048, 1, 1, 1}), 2052);
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {2048, 1, 0, 0}), 2048);
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {2050, 1, 0, 0}), 2052);
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {65504, 65504, -65504, 0}), 65504);
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {60000, 60000, 0, 0}, {.op = ReduceOp::kAvg}), 30000);
}

TEST(Num3, InfinitiesAndNaNsStayWhereTheyAre) {
  auto world = NewWorld(3);
  for (const DType dtype : kFloats) {
    const bool averages = Under().reduces({dtype, ReduceOp::kAvg, 1, 3, false});
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg}) {
      if (op == ReduceOp::kAvg && !averages) continue;
      for (int rank = 0; rank < 3; ++rank) {
        SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", ReduceOpName(op), " rank ", rank));
        std::vector<Bytes> inputs(3, EncodeAll(dtype, std::vector<double>(67, 1)));
        for (const int64_t at : {0, 13, 66}) {
          Encode(dtype, kNaN, &inputs[At(rank)][static_cast<size_t>(at * SizeOf(dtype))]);
        }
        for (const Bytes& result : Reduced(*world, dtype, inputs, {.op = op})) {
          EXPECT_EQ(FirstDifference(dtype, result, Fold(dtype, op, 1, inputs), true), "");
        }
      }
    }
    EXPECT_TRUE(std::isnan(ReducedValue(*world, dtype, {kInf, -kInf, 1})));
    EXPECT_EQ(ReducedValue(*world, dtype, {kInf, 1, kInf}), kInf);
    if (averages) {
      EXPECT_EQ(ReducedValue(*world, dtype, {1, -kInf, 1}, {.op = ReduceOp::kAvg}), -kInf);
    }
    EXPECT_TRUE(std::isnan(ReducedValue(*world, dtype, {0, kInf, 1}, {.op = ReduceOp::kProd})));
  }
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {65504, 65504, 0}), kInf);
}

TEST(Num3, SpecialNumbersOfAllKindsTogether) {
  SKIP_UNLESS(folds_in_rank_order);
  for (const int ranks : {2, 3, 5}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : kOps) {
        Call call(*world, {.dtype = dtype,
                           .shape = {2003},
                           .op = op,
                           .inputs = Inputs::kMixed,
                           .contents = Contents::kSpecials});
        const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
        EXPECT_THAT(Drive(*world, post), Each(IsOk()));
        call.ExpectDone();
      }
    }
  }
}

TEST(Num4, ANumberBeatsNaNInEveryOrder) {
  auto world = NewWorld(4);
  std::vector<double> numbers = {1, 3, 4, kNaN};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    std::vector<double> given;
    for (const size_t i : order) given.push_back(numbers[i]);
    for (const DType dtype : kFloats) {
      EXPECT_EQ(ReducedValue(*world, dtype, given, {.op = ReduceOp::kMin}), 1);
      EXPECT_EQ(ReducedValue(*world, dtype, given, {.op = ReduceOp::kMax}), 4);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_TRUE(
        std::isnan(ReducedValue(*world, DType::kF32, {kNaN, kNaN, kNaN, kNaN}, {.op = op})));
    EXPECT_EQ(ReducedValue(*world, DType::kF16, {kNaN, kNaN, -kInf, kNaN}, {.op = op}), -kInf);
  }
}

TEST(Num5, ZerosKeepTheirSigns) {
  for (const int ranks : {2, 3}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      std::vector<double> numbers(At(ranks), -0.0);
      EXPECT_TRUE(std::signbit(ReducedValue(*world, dtype, numbers)));
      if (Under().reduces({dtype, ReduceOp::kAvg, 1, ranks, false})) {
        EXPECT_TRUE(std::signbit(ReducedValue(*world, dtype, numbers, {.op = ReduceOp::kAvg})));
      }
      for (int plus = 0; plus < ranks; ++plus) {
        numbers.assign(At(ranks), -0.0);
        numbers[At(plus)] = 0.0;
        EXPECT_FALSE(std::signbit(ReducedValue(*world, dtype, numbers)));
        EXPECT_TRUE(std::signbit(ReducedValue(*world, dtype, numbers, {.op = ReduceOp::kMin})));
        EXPECT_FALSE(std::signbit(ReducedValue(*world, dtype, numbers, {.op = ReduceOp::kMax})));
      }
    }
  }
}

TEST(Num5, GathersKeepEveryBitOfEveryPattern) {
  auto world = NewWorld(2);
  for (const DType dtype : AllTypes()) {
    // All patterns of 16 bits: every NaN payload of the short types, signalling ones too.
    Bytes patterns;
    for (int i = 0; i < 1 << 16; ++i) {
      patterns.push_back(static_cast<uint8_t>(i));
      patterns.push_back(static_cast<uint8_t>(i >> 8));
    }
    const int64_t count = static_cast<int64_t>(patterns.size()) / SizeOf(dtype);
    Tensor one(world->device(0), dtype, {count}), other(world->device(1), dtype, {count});
    one.Fill(patterns);
    other.Fill(patterns);
    Tensor full(world->device(1), dtype, {2 * count});
    const auto post = [&](Rank& rank) {
      return rank.region().Gather((rank.id() == 0 ? one : other).view(), full.view(), 1);
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    full.ExpectElements(Join(dtype, {{count}, {count}}, 0, {patterns, patterns}), "root");
  }
}

TEST(Num6, DenormalsAreKept) {
  auto world = NewWorld(2);
  const auto smallest = [](int exponent) { return std::ldexp(1.0, exponent); };
  EXPECT_EQ(ReducedValue(*world, DType::kF32, {smallest(-149), smallest(-149)}), smallest(-148));
  EXPECT_EQ(ReducedValue(*world, DType::kF64, {smallest(-1074), smallest(-1074)}), smallest(-1073));
  EXPECT_EQ(ReducedValue(*world, DType::kF16, {smallest(-24), smallest(-23)}), 3 * smallest(-24));
  EXPECT_EQ(ReducedValue(*world, DType::kBF16, {smallest(-133), smallest(-133)}), smallest(-132));
  EXPECT_EQ(ReducedValue(*world, DType::kF32, {smallest(-149), 1}, {.op = ReduceOp::kMin}),
            smallest(-149));
  if (!Under().reduces({DType::kF32, ReduceOp::kAvg, 1, 2, false})) return;
  EXPECT_EQ(ReducedValue(*world, DType::kF32, {smallest(-148), 0}, {.op = ReduceOp::kAvg}),
            smallest(-149));
}

#if defined(__SSE2__)
TEST(Num6, DenormalsAreKeptWhenTheCallerFlushesThem) {
  constexpr unsigned kFlush = 0x8040;  // FTZ and DAZ
  auto world = NewWorld(2);
  for (const int64_t count : {1, 1000, 100000}) {
    std::deque<Tensor> xs;
    for (int rank = 0; rank < 2; ++rank) {
      xs.emplace_back(world->device(rank), DType::kF32, Shape{count});
      Bytes bytes(static_cast<size_t>(4 * count), 0);
      for (size_t at = 0; at < bytes.size(); at += 4) bytes[at] = static_cast<uint8_t>(1 + at % 60);
      xs.back().Fill(bytes);
    }
    const auto post = [&](Rank& rank) -> absl::Status {
      const unsigned before = _mm_getcsr();
      const unsigned mode = before | kFlush;
      _mm_setcsr(mode);
      absl::Status status = rank.region().AllReduce(xs[At(rank.id())].view());
      EXPECT_EQ(_mm_getcsr() & ~0x3Fu, mode & ~0x3Fu);  // but for the flags of what has happened
      if (status.ok()) status = rank.stream().Synchronize();
      EXPECT_EQ(_mm_getcsr() & ~0x3Fu, mode & ~0x3Fu);
      _mm_setcsr(before);
      return status;
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    Bytes expected(static_cast<size_t>(4 * count), 0);
    for (size_t at = 0; at < expected.size(); at += 4) {
      expected[at] = static_cast<uint8_t>(2 * (1 + at % 60));
    }
    for (const Tensor& x : xs) x.ExpectElements(expected, "a sum of denormals");
  }
}
#endif

TEST(Num7, IntegersWrap) {
  auto world = NewWorld(2);
  EXPECT_EQ(ReducedValue(*world, DType::kI8, {120, 100}), -36);
  EXPECT_EQ(ReducedValue(*world, DType::kU8, {200, 100}), 44);
  EXPECT_EQ(ReducedValue(*world, DType::kI32, {2147483647, 1}), -2147483648.0);
  EXPECT_EQ(ReducedValue(*world, DType::kI8, {-128, -1}, {.op = ReduceOp::kProd}), -128);
  world.reset();
  const auto five = NewWorld(5);
  for (const DType dtype : ReducibleTypes()) {
    if (IsReducibleFloat(dtype)) continue;
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::kAvg) continue;
      Call call(*five, {.dtype = dtype, .shape = {1003}, .op = op, .contents = Contents::kWild});
      const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
      EXPECT_THAT(Drive(*five, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Num8, WhatCannotBeReducedIsRefusedByName) {
  for (const int ranks : {1, 2}) {
    auto world = NewWorld(ranks);
    Tensor x(world->device(0), DType::kC128, {4});
    const auto post = [&](Rank& rank) {
      for (const DType dtype : AllTypes()) {
        const TensorView view(x.view().data(), dtype, {4});
        for (const ReduceOp op : kOps) {
          const bool is_average_of_integers = op == ReduceOp::kAvg && !IsReducibleFloat(dtype);
          if (IsReducible(dtype) && !is_average_of_integers) continue;
          EXPECT_THAT(rank.region().AllReduce(view, {.op = op}),
                      KindIs(ErrorKind::kUnsupported,
                             AllOf(HasSubstr(std::string(DTypeName(dtype))), HasSubstr("bf16"))));
        }
      }
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    x.ExpectUntouched("a tensor that was refused");
  }
}

// By the backend, that is, of what mp defines: on every rank, through every door, without effect.
TEST(Num8, WhatTheBackendCannotReduceIsRefusedByName) {
  for (const int ranks : {1, 2, 3}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : kOps) {
        for (const auto& [scale, shared] : {std::pair(0.5, false), {0.5, true}, {0.3, true}}) {
          if (Under().reduces({dtype, op, scale, ranks, shared})) continue;
          Call call(
              *world,
              {.dtype = dtype, .shape = {9}, .op = op, .scale = scale, .shared_output = shared});
          const auto refused = KindIs(ErrorKind::kUnsupported);
          EXPECT_THAT(call.Post(world->region()), refused);
          EXPECT_THAT(call.Start(world->region()).status(), refused);
          const auto post = [&](Rank& rank) -> absl::Status {
            EXPECT_THAT(call.Post(rank.region()), refused);
            EXPECT_THAT(call.Start(rank.region()).status(), refused);
            Batch batch = rank.region().NewBatch();
            const absl::Status added = call.AddTo(batch, rank.id());
            EXPECT_THAT(added.ok() ? batch.End() : added, refused);
            return rank.region().AcquireSlot();  // nothing was posted
          };
          EXPECT_THAT(Drive(*world, post), Each(IsOk()));
          call.ExpectUntouched();
        }
      }
    }
  }
}

TEST(Num8, WhatCannotBeReducedCanBeGathered) {
  auto world = NewWorld(3);
  for (const DType dtype : {DType::kBool, DType::kF8E4M3, DType::kF8E5M2}) {
    Call call(*world, {.kind = OpKind::kAllGather, .dtype = dtype, .shape = {3, 0}});
    const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    call.ExpectDone();
  }
}

TEST(Num9, AnAverageIsTheSumDividedOnce) {
  for (const int ranks : {1, 2, 3, 5, 7, 8}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      if (!Under().reduces({dtype, ReduceOp::kAvg, 1, ranks, false})) continue;
      std::vector<double> numbers;
      for (int rank = 0; rank < ranks; ++rank) numbers.push_back(rank == 0 ? 5 : rank);
      double sum = 0;
      for (const double number : numbers) sum += number;
      Bytes expected(8);
      Encode(
          dtype,
          dtype == DType::kF64 ? sum / ranks : static_cast<float>(sum) / static_cast<float>(ranks),
          expected.data());
      const Bytes got = ReducedNumber(*world, dtype, numbers, {.op = ReduceOp::kAvg});
      EXPECT_EQ(Decode(dtype, got.data()), Decode(dtype, expected.data()))
          << DTypeName(dtype) << " on " << ranks;
    }
  }
}

TEST(Num9, AScaleComesBeforeTheSum) {
  for (const int ranks : {1, 2, 3, 5}) {
    auto world = NewWorld(ranks);
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : kOps) {
        for (const double scale : {0.5, -4.0, 0.0, 3.0}) {
          if (!Under().folds_in_rank_order && scale == 3) continue;
          if (!Under().reduces({dtype, op, scale, ranks, false})) continue;
          Call call(
              *world,
              {.dtype = dtype, .shape = {101}, .op = op, .scale = scale, .inputs = Inputs::kMixed});
          const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
          EXPECT_THAT(Drive(*world, post), Each(IsOk()));
          call.ExpectDone();
        }
      }
    }
  }
}

TEST(Num9, IntegersHaveNoScale) {
  auto world = NewWorld(2);
  Tensor x(world->device(0), DType::kI32, {4});
  const auto post = [&](Rank& rank) {
    EXPECT_THAT(rank.region().AllReduce(x.view(), {.scale = 2}),
                ::testing::AnyOf(KindIs(ErrorKind::kUnsupported, HasSubstr("i32")),
                                 KindIs(ErrorKind::kInvalidArgument, HasSubstr("i32"))));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  x.ExpectUntouched("a tensor that was refused");
}

}  // namespace
}  // namespace mp::test
