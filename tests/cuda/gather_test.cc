// The rectangles that a gather copies, carried out on host memory: every element of the result
// lands where the definition says, for each joined dimension, with row pitches, and nothing else is
// written.
#include "mp/cuda/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace mp::cuda {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int32_t kPoison = -1;

std::vector<Push> Planned(const Descriptor& what, const std::vector<Part>& parts) {
  std::vector<Push> pushes;
  PlanGather(what, parts, pushes);
  return pushes;
}

void CarryOut(const std::vector<Push>& pushes) {
  for (const Push& push : pushes) {
    for (size_t block = 0; block < push.depth; ++block) {
      for (size_t row = 0; row < push.height; ++row) {
        std::memcpy(push.to.data + (block * push.to.rows + row) * push.to.pitch,
                    push.from.data + (block * push.from.rows + row) * push.from.pitch, push.width);
      }
    }
  }
}

// A tensor [a, b, c] of i32 whose rows are `gap` elements apart.
struct Tensor {
  Tensor(int64_t a_size, int64_t b_size, int64_t c_size, int64_t gap)
      : a(a_size),
        b(b_size),
        c(c_size),
        pitch(c + gap),
        data(static_cast<size_t>(a * b * pitch), kPoison) {}
  int32_t& at(int64_t i, int64_t j, int64_t k) {
    return data[static_cast<size_t>((i * b + j) * pitch + k)];
  }
  int64_t a, b, c, pitch;
  std::vector<int32_t> data;
};

int32_t Value(int rank, int64_t i, int64_t j, int64_t k) {
  return static_cast<int32_t>(rank * 1000 + i * 100 + j * 10 + k);
}

Descriptor Gather(int dim, const Shape& shape) {
  Descriptor what;
  what.kind = OpKind::kGather;
  what.dtype = DType::kI32;
  what.root = 1;
  what.dim = dim;
  what.shape = shape.With(dim, 0);
  return what;
}

TEST(PlanGather, JoinsEachDimension) {
  const std::vector<int64_t> extents = {3, 0, 2};
  for (int dim = 0; dim < 3; ++dim) {
    std::vector<Tensor> inputs;
    std::vector<int64_t> sizes = {2, 4, 3};
    for (int r = 0; r < 3; ++r) {
      sizes[static_cast<size_t>(dim)] = extents[static_cast<size_t>(r)];
      Tensor input(sizes[0], sizes[1], sizes[2], r);
      for (int64_t i = 0; i < input.a; ++i) {
        for (int64_t j = 0; j < input.b; ++j) {
          for (int64_t k = 0; k < input.c; ++k) input.at(i, j, k) = Value(r, i, j, k);
        }
      }
      inputs.push_back(input);
    }
    sizes[static_cast<size_t>(dim)] = 5;
    Tensor output(sizes[0], sizes[1], sizes[2], 2);
    std::vector<Part> parts(3);
    for (size_t r = 0; r < 3; ++r) {
      parts[r] = {.input = inputs[r].data.data(),
                  .input_pitch = inputs[r].pitch * 4,
                  .input_extent = extents[r],
                  .output_extent = 5};
    }
    parts[1].output = output.data.data();
    parts[1].output_pitch = output.pitch * 4;
    CarryOut(Planned(Gather(dim, Shape(sizes)), parts));
    for (int64_t i = 0; i < output.a; ++i) {
      for (int64_t j = 0; j < output.b; ++j) {
        for (int64_t k = 0; k < output.c; ++k) {
          int64_t at[] = {i, j, k};
          const int rank = at[dim] < 3 ? 0 : 2;
          if (rank == 2) at[dim] -= 3;
          EXPECT_EQ(output.at(i, j, k), Value(rank, at[0], at[1], at[2]))
              << "dim " << dim << " at " << i << ", " << j << ", " << k;
        }
        for (int64_t k = output.c; k < output.pitch; ++k) EXPECT_EQ(output.at(i, j, k), kPoison);
      }
    }
  }
}

TEST(PlanGather, AShardInItsOwnSlotIsNotCopied) {
  Tensor output(1, 4, 5, 0);
  Tensor other(1, 4, 3, 0);
  std::vector<Part> parts(2);
  parts[0] = {.input = output.data.data(), .input_pitch = 20, .input_extent = 2};
  parts[1] = {.input = other.data.data(),
              .input_pitch = 12,
              .output = output.data.data(),
              .output_pitch = 20,
              .input_extent = 3,
              .output_extent = 5};
  EXPECT_THAT(Planned(Gather(1, {4, 5}), parts), SizeIs(1));
  parts[1].input = output.data.data() + 2;
  parts[1].input_pitch = 20;
  EXPECT_THAT(Planned(Gather(1, {4, 5}), parts), IsEmpty());
}

TEST(PlanGather, ASharedOutputIsWrittenOnce) {
  Tensor output(1, 4, 4, 0);
  Tensor a(1, 4, 2, 0), b(1, 4, 2, 0);
  std::vector<Part> parts(2);
  for (Part& part : parts) {
    part = {.input_pitch = 8,
            .output = output.data.data(),
            .output_pitch = 16,
            .input_extent = 2,
            .output_extent = 4};
  }
  parts[0].input = a.data.data();
  parts[1].input = b.data.data();
  Descriptor what = Gather(1, {4, 4});
  what.kind = OpKind::kAllGather;
  what.root = -1;
  EXPECT_THAT(Planned(what, parts), SizeIs(4));
  what.shared_output = true;
  EXPECT_THAT(Planned(what, parts), SizeIs(2));
}

}  // namespace
}  // namespace mp::cuda
