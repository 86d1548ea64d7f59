// Shows that the pieces of an operation, however many and in whatever order, together give exactly
// the sum or the joined tensor: all small gathers, and reductions of every type, against the plain
// way; and that each byte of a result is written by one piece and no other byte by any.

#include "mp/host/carry_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/numbers.h"
#include "tests/support/oracle.h"

namespace mp::host {
namespace {

using test::Bytes;

// Rows of bytes, `pitch` apart, with a guard on both sides and `offset` bytes behind any boundary.
class Plane {
 public:
  Plane(int64_t rows, int64_t row_bytes, int64_t pitch, int64_t offset)
      : rows_(rows), row_bytes_(row_bytes), pitch_(pitch), begin_(kGuard + offset) {
    memory_.resize(static_cast<size_t>(begin_ + rows * pitch + kGuard));
  }
  uint8_t* data() { return &memory_[static_cast<size_t>(begin_)]; }
  int64_t pitch() const { return pitch_; }

  void Poison(uint8_t poison) { std::fill(memory_.begin(), memory_.end(), poison); }
  void Set(const Bytes& dense) {
    for (size_t i = 0; i < dense.size(); ++i) memory_[At(i)] = dense[i];
  }
  Bytes Get() const {
    Bytes dense(static_cast<size_t>(rows_ * row_bytes_));
    for (size_t i = 0; i < dense.size(); ++i) dense[i] = memory_[At(i)];
    return dense;
  }
  // Notes which bytes are `poison` no longer.
  void NoteWritten(uint8_t poison, Bytes& written) const {
    written.resize(memory_.size(), 0);
    for (size_t i = 0; i < memory_.size(); ++i)
      if (memory_[i] != poison) written[i] = 1;
  }
  // What `written` adds up to where every byte of the rows is written once and no other.
  Bytes EachOnce() const {
    Bytes written(memory_.size(), 0);
    for (size_t i = 0; i < static_cast<size_t>(rows_ * row_bytes_); ++i) written[At(i)] = 1;
    return written;
  }

 private:
  static constexpr int64_t kGuard = 64;
  size_t At(size_t i) const {
    const auto byte = static_cast<int64_t>(i);
    return static_cast<size_t>(begin_ + byte / row_bytes_ * pitch_ + byte % row_bytes_);
  }
  int64_t rows_, row_bytes_, pitch_, begin_;
  Bytes memory_;
};

Plane PlaneOf(DType dtype, const Shape& shape, int64_t gap, int64_t offset) {
  const int64_t row = shape.columns() * SizeOf(dtype);
  return Plane(shape.Product(0, shape.rank() - 1), row, row + gap, offset);
}

// One step, its memory, and what it must give.
struct Step {
  Descriptor descriptor;
  std::vector<Part> parts;
  std::deque<Plane> inputs, outputs;
  Bytes expected;

  void Run(int64_t piece, int64_t pieces) { CarryOut(descriptor, parts, piece, pieces); }

  // The pieces from the last to the first, one after the other in the same memory.
  void ExpectResult(int64_t pieces) {
    for (Plane& output : outputs) output.Poison(0xA5);
    for (int64_t piece = pieces; piece-- > 0;) Run(piece, pieces);
    for (const Plane& output : outputs) {
      ASSERT_EQ(test::FirstDifference(descriptor.dtype, output.Get(), expected, true), "");
    }
  }
  // Each piece alone on fresh memory, twice: a byte written with the one poison's value differs
  // from the other.
  void ExpectEachByteWrittenOnce(int64_t pieces) {
    std::vector<Bytes> times(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) times[k].resize(outputs[k].EachOnce().size(), 0);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      std::vector<Bytes> written(outputs.size());
      for (const uint8_t poison : {uint8_t{0xA5}, uint8_t{0x3C}}) {
        for (Plane& output : outputs) output.Poison(poison);
        Run(piece, pieces);
        for (size_t k = 0; k < outputs.size(); ++k) outputs[k].NoteWritten(poison, written[k]);
      }
      for (size_t k = 0; k < outputs.size(); ++k) {
        for (size_t i = 0; i < times[k].size(); ++i)
          times[k][i] = static_cast<uint8_t>(times[k][i] + written[k][i]);
      }
    }
    for (size_t k = 0; k < outputs.size(); ++k) ASSERT_EQ(times[k], outputs[k].EachOnce());
  }
};

// --- gathers -------------------------------------------------------------------------------------

struct GatherCase {
  DType dtype = DType::kI16;
  Shape shape;  // without the joined size
  int dim = 0;
  std::vector<int64_t> extents;
  int root = -1;
  bool shared_output = false;
  int64_t input_gap = 0, output_gap = 0, offset = 0;  // bytes
};

std::string Name(const GatherCase& c) {
  return absl::StrCat(c.shape.ToString(), " dim ", c.dim, " sizes ", c.extents[0], ", ",
                      c.extents.back(), " of ", c.extents.size(), " root ", c.root, " shared ",
                      c.shared_output, " gap ", c.input_gap, " ", c.output_gap);
}

Step StepOf(const GatherCase& c) {
  Step step;
  step.descriptor.kind = c.root < 0 ? OpKind::kAllGather : OpKind::kGather;
  step.descriptor.dtype = c.dtype;
  step.descriptor.root = c.root;
  step.descriptor.dim = c.dim;
  step.descriptor.shared_output = c.shared_output;
  step.descriptor.shape = c.shape.With(c.dim, 0);
  int64_t total = 0;
  std::vector<Shape> shapes;
  std::vector<Bytes> shards;
  for (const int64_t extent : c.extents) {
    total += extent;
    shapes.push_back(c.shape.With(c.dim, extent));
    shards.push_back(test::AnyBits(c.dtype, shapes.back().elements(), shards.size() + 1));
    // A gap of its own for each rank.
    const auto rank = static_cast<int64_t>(shards.size());
    step.inputs.push_back(PlaneOf(c.dtype, shapes.back(), c.input_gap * rank, c.offset + rank));
    step.inputs.back().Set(shards.back());
    Part part;
    part.input = step.inputs.back().data();
    part.input_pitch = step.inputs.back().pitch();
    part.input_extent = extent;
    step.parts.push_back(part);
  }
  step.expected = test::Join(c.dtype, shapes, c.dim, shards);
  for (size_t rank = 0; rank < c.extents.size(); ++rank) {
    if (c.root >= 0 && static_cast<int>(rank) != c.root) continue;
    if (!c.shared_output || rank == 0) {
      // Outputs of two pitches, so that some are written together.
      step.outputs.push_back(PlaneOf(c.dtype, c.shape.With(c.dim, total),
                                     c.output_gap * static_cast<int64_t>(rank % 2), c.offset));
    }
    step.parts[rank].output = step.outputs.back().data();
    step.parts[rank].output_pitch = step.outputs.back().pitch();
    step.parts[rank].output_extent = total;
  }
  return step;
}

// All sizes 0, 1 and 2 of `ranks` shards.
std::vector<std::vector<int64_t>> SmallExtents(int ranks) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& extents : all) {
      for (const int64_t extent : {0, 1, 2}) {
        longer.push_back(extents);
        longer.back().push_back(extent);
      }
    }
    all = longer;
  }
  return all;
}

void ExpectDone(const GatherCase& c, int64_t most_pieces = 7) {
  SCOPED_TRACE(Name(c));
  Step step = StepOf(c);
  for (int64_t pieces = 1; pieces <= most_pieces; ++pieces) {
    SCOPED_TRACE(absl::StrCat(pieces, " pieces"));
    step.ExpectResult(pieces);
    step.ExpectEachByteWrittenOnce(pieces);
  }
}

TEST(CarryOut, JoinsAllSmallShards) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::vector<int64_t>& extents : SmallExtents(ranks)) {
      for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 1, 3}, Shape{1, 3, 2}, Shape{2, 2, 2}}) {
        for (const int dim : {0, 1, 2}) {
          for (const bool shared : {false, true}) {
            ExpectDone({.shape = shape,
                        .dim = dim,
                        .extents = extents,
                        .shared_output = shared,
                        .input_gap = shared ? 0 : 3,
                        .output_gap = shared ? 5 : 2});
          }
          ExpectDone({.shape = shape, .dim = dim, .extents = extents, .root = ranks - 1});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CarryOut, CutsLongRowsAndManyRows) {
  // Rows of more cache lines than there are pieces, and fewer; rows fewer than pieces, and more.
  for (const std::vector<int64_t>& extents :
       {std::vector<int64_t>{100, 257, 31}, {600, 0, 1}, {16, 16, 16}, {0, 33, 0, 200}}) {
    for (const int64_t rows : {1, 2, 6, 9}) {
      for (const DType dtype : {DType::kI8, DType::kF64}) {
        for (const int root : {-1, 1}) {
          ExpectDone({.dtype = dtype,
                      .shape = {rows, 0},
                      .dim = 1,
                      .extents = extents,
                      .root = root,
                      .input_gap = 16,
                      .output_gap = 32,
                      .offset = rows % 5});
        }
      }
    }
  }
  ExpectDone({.dtype = DType::kF32,
              .shape = {3, 0, 2, 300},
              .dim = 1,
              .extents = {4, 1, 7},
              .output_gap = 64});
}

TEST(CarryOut, JoinsMoreThanTheCachesHold) {
  Step step = StepOf({.dtype = DType::kC128,
                      .shape = {3, 0},
                      .dim = 1,
                      .extents = {200000, 170000, 5},
                      .shared_output = true,
                      .offset = 3});
  for (const int64_t pieces : {2, 7}) step.ExpectResult(pieces);
}

TEST(CarryOut, JoinsNothing) {
  const std::vector<std::pair<Shape, int>> cases = {{{0, 3, 2}, 1}, {{0, 3, 2}, 2}, {{2, 3, 0}, 0},
                                                    {{2, 3, 0}, 1}, {{2, 0, 3}, 0}, {{2, 0, 3}, 2},
                                                    {{0, 0, 0}, 1}, {{0, 0, 0}, 2}};
  for (const auto& [shape, dim] : cases) {
    const GatherCase nothing = {.shape = shape, .dim = dim, .extents = {1, 0, 2}};
    ExpectDone(nothing);
    const Step step = StepOf(nothing);
    EXPECT_EQ(BytesOf(step.descriptor, step.parts), 0) << Name(nothing);
  }
}

// --- reductions ----------------------------------------------------------------------------------

enum class Where { kApart, kInPlace, kMixed, kShared };

Step StepOf(DType dtype, ReduceOp op, double scale, int ranks, int64_t count, Where where) {
  Step step;
  step.descriptor.dtype = dtype;
  step.descriptor.reduce_op = op;
  step.descriptor.scale = scale;
  step.descriptor.shape = {count};
  step.descriptor.shared_output = where == Where::kShared;
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(test::WildNumbers(dtype, count, static_cast<uint64_t>(rank + 1)));
    step.inputs.push_back(PlaneOf(dtype, {count}, 0, rank));
    step.inputs.back().Set(inputs.back());
    Part part;
    part.input = part.output = step.inputs.back().data();
    const bool in_place = where == Where::kInPlace || (where == Where::kMixed && rank % 2 == 1);
    if (!in_place) {
      if (where != Where::kShared || rank == 0) {
        step.outputs.push_back(PlaneOf(dtype, {count}, 0, 3 * rank));
      }
      part.output = step.outputs.back().data();
    }
    step.parts.push_back(part);
  }
  step.expected = test::Fold(dtype, op, scale, inputs);
  return step;
}

constexpr int64_t kCounts[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 1000};

TEST(CarryOut, ReducesEveryTypeInAnyNumberOfPieces) {
  for (const DType dtype : test::ReducibleTypes()) {
    for (const int64_t count : kCounts) {
      for (const int ranks : {1, 2, 3, 5}) {
        for (const Where where : {Where::kApart, Where::kShared}) {
          Step step = StepOf(dtype, ReduceOp::kSum, 1, ranks, count, where);
          for (int64_t pieces = 1; pieces <= 7; ++pieces) {
            SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", count, " of ", ranks, " in ", pieces));
            step.ExpectResult(pieces);
            step.ExpectEachByteWrittenOnce(pieces);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(CarryOut, ReducesInPlace) {
  for (const DType dtype : test::ReducibleTypes()) {
    for (const int64_t count : kCounts) {
      for (const Where where : {Where::kInPlace, Where::kMixed}) {
        for (int64_t pieces = 1; pieces <= 7; ++pieces) {
          Step step = StepOf(dtype, ReduceOp::kMax, 1, 3, count, where);
          step.ExpectResult(pieces);  // of the outputs that are apart
          for (size_t rank = 0; rank < 3; ++rank) {
            if (step.parts[rank].output != step.parts[rank].input) continue;
            ASSERT_EQ(test::FirstDifference(dtype, step.inputs[rank].Get(), step.expected, true),
                      "")
                << DTypeName(dtype) << " " << count << " in " << pieces;
          }
        }
      }
    }
  }
}

TEST(CarryOut, ReducesWithEveryOpAndScale) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      for (const double scale : {1.0, 0.3}) {
        Step step = StepOf(dtype, static_cast<ReduceOp>(op), scale, 3, 100, Where::kApart);
        step.ExpectResult(4);
      }
    }
  }
}

TEST(BytesOf, CountsWhatIsReadAndWritten) {
  const auto bytes = [](const Step& step) { return BytesOf(step.descriptor, step.parts); };
  const auto reduction = [](Where where) {
    return StepOf(DType::kF32, ReduceOp::kSum, 1, 3, 10, where);
  };
  EXPECT_EQ(bytes(reduction(Where::kApart)), 40 * (3 + 3));
  EXPECT_EQ(bytes(reduction(Where::kShared)), 40 * (3 + 1));
  for (const int dim : {0, 1, 2}) {
    GatherCase gather = {
        .dtype = DType::kF32, .shape = {2, 2, 2}, .dim = dim, .extents = {1, 2, 3}};
    EXPECT_EQ(bytes(StepOf(gather)), 96 * (1 + 3));
    gather.root = 1;
    Step step = StepOf(gather);
    EXPECT_EQ(bytes(step), 96 * 2);
    step.parts[0].input = step.parts[1].output;  // in its slot, where that is one of one pitch
    step.parts[0].input_pitch = step.parts[1].output_pitch;
    EXPECT_EQ(bytes(step), dim == 1 ? 96 * 2 : 80 * 2);
    gather.extents = {0, 0, 0};
    EXPECT_EQ(bytes(StepOf(gather)), 0);
  }
  EXPECT_EQ(BytesOf({.kind = OpKind::kAcquireSlot}, std::vector<Part>(3)), 0);
}

}  // namespace
}  // namespace mp::host
