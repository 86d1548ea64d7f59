// Proves the kernel of strided copies against a plain loop, on the grid that interleaves blocks and
// threads: random rectangles of every alignment, flat ones, many in a launch and in several, what a
// gather pushes.  Outputs are poisoned first and every byte of them is compared, so that what lies
// between rows and around them is known to stay.  And the plan: as few and as wide pieces as the
// addresses allow.
#include "mp/cuda/kernels/copy.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/kernels/copy-inl.h"
#include "tests/cuda/kernels/guarded.h"
#include "tests/fake/kernels/interleaved.h"

namespace mp::cuda {
namespace {

using ::testing::ElementsAre;

void CopyByLoop(const StridedCopy& copy) {
  for (int64_t block = 0; block < copy.depth; ++block) {
    for (int64_t row = 0; row < copy.height; ++row) {
      for (int64_t i = 0; i < copy.width; ++i) {
        copy.to.data[block * copy.to.block_pitch + row * copy.to.row_pitch + i] =
            copy.from.data[block * copy.from.block_pitch + row * copy.from.row_pitch + i];
      }
    }
  }
}

// A rectangle whose sides are not placed yet.
struct Form {
  int64_t width, height, depth;
  int64_t from_gap, to_gap;          // bytes between rows
  int64_t from_row_gap, to_row_gap;  // rows between blocks
  size_t from_offset, to_offset;     // bytes behind a multiple of 64

  std::string Describe() const {
    return std::to_string(width) + " x " + std::to_string(height) + " x " + std::to_string(depth) +
           ", gaps " + std::to_string(from_gap) + " " + std::to_string(to_gap) + ", rows " +
           std::to_string(from_row_gap) + " " + std::to_string(to_row_gap) + ", offsets " +
           std::to_string(from_offset) + " " + std::to_string(to_offset);
  }
};

// Source and targets of a form: one target for the kernel, one for the loop.
class Placed {
 public:
  Placed(const Form& form, std::mt19937_64& random)
      : form_(form),
        source_(Bytes(form.from_gap, form.from_row_gap), form.from_offset),
        by_grid_(Bytes(form.to_gap, form.to_row_gap), form.to_offset),
        by_loop_(Bytes(form.to_gap, form.to_row_gap), form.to_offset) {
    std::vector<uint8_t> bytes(Bytes(form.from_gap, form.from_row_gap));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    source_.Fill(bytes);
    CopyByLoop(CopyTo(by_loop_));
  }

  StridedCopy copy() const { return CopyTo(by_grid_); }
  bool Done() const {
    return by_grid_.bytes() == by_loop_.bytes() && by_grid_.GuardsAreIntact() &&
           by_loop_.GuardsAreIntact();
  }

 private:
  size_t Bytes(int64_t gap, int64_t row_gap) const {
    return static_cast<size_t>((form_.width + gap) * (form_.height + row_gap) * form_.depth);
  }
  StridedCopy CopyTo(const Guarded& target) const {
    StridedCopy copy;
    const int64_t from_pitch = form_.width + form_.from_gap;
    const int64_t to_pitch = form_.width + form_.to_gap;
    copy.from = {reinterpret_cast<const std::byte*>(source_.data()), from_pitch,
                 from_pitch * (form_.height + form_.from_row_gap)};
    copy.to = {reinterpret_cast<std::byte*>(target.data()), to_pitch,
               to_pitch * (form_.height + form_.to_row_gap)};
    copy.width = form_.width;
    copy.height = form_.height;
    copy.depth = form_.depth;
    return copy;
  }

  Form form_;
  Guarded source_, by_grid_, by_loop_;
};

void Check(const std::vector<Form>& forms, int most_blocks, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Placed>> placed;
  std::vector<StridedCopy> copies;
  for (const Form& form : forms) {
    placed.push_back(std::make_unique<Placed>(form, random));
    copies.push_back(placed.back()->copy());
  }
  ASSERT_EQ(LaunchCopiesBy(copies.data(), static_cast<int>(copies.size()), most_blocks,
                           fake::Interleaved{seed}),
            cudaSuccess);
  for (size_t i = 0; i < forms.size(); ++i) {
    ASSERT_TRUE(placed[i]->Done())
        << forms[i].Describe() << ", copy " << i << ", blocks " << most_blocks << ", seed " << seed;
  }
}

TEST(Copy, EveryWidthAndAlignment) {
  uint64_t seed = 0;
  for (const int64_t width : {1, 2, 3, 4, 8, 15, 16, 17, 24, 31, 32, 33, 48, 100, 128, 1000}) {
    for (const int64_t unit : {1, 2, 4, 8, 16}) {
      for (const size_t shift : {0, 1, 2}) {
        const auto step = static_cast<size_t>(unit);
        Check({{width, 5, 1, unit - width % unit, 3 * unit - width % unit, 0, 0, shift * step,
                (shift + 2) * step % 16}},
              1 + static_cast<int>(shift), ++seed);
        Check({{width * unit, 3, 2, unit, 0, 1, 0, shift * step, 0}}, 2, ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Around a tile's columns and rows, with blocks that take several tiles.
TEST(Copy, AroundTiles) {
  uint64_t seed = 0;
  for (const int64_t columns : {255, 256, 257, 1023, 1024, 1025, 2500}) {
    for (const int64_t height : {1, 2, 5}) {
      for (const int64_t unit : {1, 16}) {
        for (const int most_blocks : {1, 3, 1024}) {
          Check({{columns * unit, height, 2, unit, 0, 1, 1, 0, 0}}, most_blocks, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  for (const int64_t height : {127, 128, 129, 513}) {
    for (const int64_t width : {16, 40, 48}) {
      for (const int most_blocks : {1, 3}) {
        Check({{width, height, 3, 16, 32, 0, 2, 8, 8}}, most_blocks, ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// More pieces than fit one launch, of all forms, empty ones among them.
TEST(Copy, ManyInOneCall) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&random](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
    std::vector<Form> forms;
    const int64_t count = 1 + draw(70);
    while (static_cast<int64_t>(forms.size()) < count) {
      const int64_t unit = int64_t{1} << draw(5);
      forms.push_back(
          {draw(40) * unit, draw(12), draw(4), draw(2) * unit * draw(4), draw(2) * unit * draw(4),
           draw(3), draw(2) * draw(3),
           static_cast<size_t>(draw(16)) / static_cast<size_t>(unit) * static_cast<size_t>(unit),
           static_cast<size_t>(draw(16)) / static_cast<size_t>(unit) * static_cast<size_t>(unit)});
    }
    Check(forms, 1 + static_cast<int>(seed % 5), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Copy, EveryInterleavingIsTheSame) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Check({{1000, 9, 1, 24, 8, 0, 0, 4, 4}, {80, 50, 2, 0, 16, 1, 0, 1, 0}}, 2, seed);
    if (HasFatalFailure()) return;
  }
}

StridedCopy FromPush(const Push& push) {
  const auto bytes = [](size_t value) { return static_cast<int64_t>(value); };
  StridedCopy copy;
  copy.from = {push.from.data, bytes(push.from.pitch), bytes(push.from.pitch * push.from.rows)};
  copy.to = {push.to.data, bytes(push.to.pitch), bytes(push.to.pitch * push.to.rows)};
  copy.width = bytes(push.width);
  copy.height = bytes(push.height);
  copy.depth = bytes(push.depth);
  return copy;
}

// The pushes of an AllGather of three ranks with 3, 0 and 2 of 5, along each dimension.
TEST(Copy, WhatAGatherPushes) {
  constexpr int64_t kExtents[] = {3, 0, 2};
  for (int dim = 0; dim < 3; ++dim) {
    Descriptor what;
    what.kind = OpKind::kAllGather;
    what.dtype = DType::kI32;
    what.dim = dim;
    std::vector<int64_t> sizes = {2, 4, 6};
    sizes[static_cast<size_t>(dim)] = 0;
    what.shape = Shape(sizes);
    constexpr int64_t kPitch = 7;  // elements
    std::vector<std::vector<int32_t>> inputs(3), outputs(3);
    std::vector<Part> parts(3);
    for (size_t r = 0; r < 3; ++r) {
      inputs[r].resize(5 * 5 * 7);
      for (size_t i = 0; i < inputs[r].size(); ++i)
        inputs[r][i] = static_cast<int32_t>(r * 1000 + i);
      outputs[r].assign(5 * 5 * 7, -1);
      parts[r] = {.input = inputs[r].data(),
                  .input_pitch = kPitch * 4,
                  .output = outputs[r].data(),
                  .output_pitch = kPitch * 4,
                  .input_extent = kExtents[r],
                  .output_extent = 5};
    }
    std::vector<Push> pushes;
    PlanGather(what, parts, pushes);
    std::vector<StridedCopy> copies;
    for (const Push& push : pushes) copies.push_back(FromPush(push));
    ASSERT_EQ(copies.size(), 6u);
    for (const StridedCopy& copy : copies) CopyByLoop(copy);
    const auto expected = outputs;
    for (auto& output : outputs) output.assign(output.size(), -1);
    ASSERT_EQ(LaunchCopiesBy(copies.data(), 6, 1024, fake::Interleaved{3}), cudaSuccess);
    EXPECT_EQ(outputs, expected) << "dim " << dim;
  }
}

// The plan ----------------------------------------------------------------------------------------

alignas(16) const std::byte source[4096] = {};
alignas(16) std::byte target[4096];

StridedCopy At(int64_t from, int64_t to, int64_t width, int64_t height = 1, int64_t from_pitch = 0,
               int64_t to_pitch = 0) {
  StridedCopy copy;
  copy.from = {source + from, from_pitch, 0};
  copy.to = {target + to, to_pitch, 0};
  copy.width = width;
  copy.height = height;
  return copy;
}

// (bytes of a row, bytes of a vector) of each piece.
std::vector<std::pair<int64_t, int>> PiecesOf(const StridedCopy& copy) {
  std::vector<std::pair<int64_t, int>> pieces;
  CutIntoPieces(copy, [&pieces](const Piece& piece) {
    pieces.emplace_back(piece.copy.width, piece.vector_bytes);
  });
  return pieces;
}

TEST(CopyPlan, MovesAsWideAsAddressesAllow) {
  EXPECT_THAT(PiecesOf(At(0, 0, 64)), ElementsAre(std::pair{64, 16}));
  EXPECT_THAT(PiecesOf(At(4, 20, 64)),
              ElementsAre(std::pair{12, 4}, std::pair{48, 16}, std::pair{4, 4}));
  EXPECT_THAT(PiecesOf(At(0, 8, 64)), ElementsAre(std::pair{64, 8}));
  EXPECT_THAT(PiecesOf(At(3, 4, 64)), ElementsAre(std::pair{64, 1}));
  EXPECT_THAT(PiecesOf(At(1, 3, 5)), ElementsAre(std::pair{1, 1}, std::pair{4, 2}));
  EXPECT_THAT(PiecesOf(At(0, 0, 14)), ElementsAre(std::pair{14, 2}));
  EXPECT_THAT(PiecesOf(At(0, 0, 48, 4, 64, 128)), ElementsAre(std::pair{48, 16}));
  EXPECT_THAT(PiecesOf(At(0, 0, 48, 4, 64, 56)), ElementsAre(std::pair{48, 8}));
  EXPECT_THAT(PiecesOf(At(0, 0, 48, 4, 49, 64)), ElementsAre(std::pair{48, 1}));
  EXPECT_THAT(PiecesOf(At(0, 0, 0)), ElementsAre());
  EXPECT_THAT(PiecesOf(At(0, 0, 16, 0)), ElementsAre());
}

// A pitch that nothing walks along does not count, and rows without gaps are one.
TEST(CopyPlan, Flattens) {
  EXPECT_THAT(PiecesOf(At(0, 0, 48, 1, 1, 3)), ElementsAre(std::pair{48, 16}));
  EXPECT_THAT(PiecesOf(At(0, 0, 6, 8, 6, 6)), ElementsAre(std::pair{48, 16}));
  StridedCopy blocks = At(0, 0, 8, 4, 8, 8);
  blocks.depth = 3;
  blocks.from.block_pitch = 32;
  blocks.to.block_pitch = 32;
  EXPECT_THAT(PiecesOf(blocks), ElementsAre(std::pair{96, 16}));
  blocks.to.block_pitch = 48;  // blocks become rows
  EXPECT_THAT(PiecesOf(blocks), ElementsAre(std::pair{32, 16}));
  EXPECT_EQ(Flatten(blocks).height, 3);
  EXPECT_EQ(Flatten(blocks).depth, 1);
}

TEST(CopyPlan, AsFewLaunchesAsPiecesFit) {
  const auto launches = [](int count, int64_t width, int most_blocks = 1024) {
    std::vector<int> blocks;
    const std::vector<StridedCopy> copies(static_cast<size_t>(count), At(0, 0, width));
    LaunchCopiesBy(copies.data(), count, most_blocks,
                   [&blocks](const CopyBody& /*body*/, int launched, int threads) {
                     EXPECT_EQ(threads, kCopyThreads);
                     blocks.push_back(launched);
                     return cudaSuccess;
                   });
    return blocks;
  };
  EXPECT_THAT(launches(0, 16), ElementsAre());
  EXPECT_THAT(launches(5, 0), ElementsAre());
  EXPECT_THAT(launches(32, 16), ElementsAre(32));
  EXPECT_THAT(launches(33, 16), ElementsAre(32, 1));
  EXPECT_THAT(launches(2, 16 * kTileVectors + 16), ElementsAre(4));
  EXPECT_THAT(launches(3, int64_t{1} << 40), ElementsAre(1024));
  EXPECT_THAT(launches(3, int64_t{1} << 40, 7), ElementsAre(7));
}

TEST(CopyPlan, RefusesAndStops) {
  int launched = 0;
  const auto fail = [&launched](const CopyBody& /*body*/, int /*blocks*/, int /*threads*/) {
    ++launched;
    return cudaErrorLaunchFailure;
  };
  std::vector<StridedCopy> copies(100, At(0, 0, 16));
  EXPECT_EQ(LaunchCopiesBy(copies.data(), 100, 1, fail), cudaErrorLaunchFailure);
  EXPECT_EQ(launched, 1);
  copies.back().width = -1;
  EXPECT_EQ(LaunchCopiesBy(copies.data(), 100, 1, fail), cudaErrorInvalidValue);
  EXPECT_EQ(launched, 1);
}

}  // namespace
}  // namespace mp::cuda
