// SIZ-5, SIZ-10: counts, offsets and pitches beyond 32 bits, in memory of which next to nothing is
// used.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "mp/cuda/backend.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kRows = 3;
constexpr int64_t kPitch = (int64_t{1} << 31) + 4096;
constexpr int32_t kPoison = -77;

struct Setting {
  std::string name;
  std::vector<int> devices;
  Transport transport = Transport::kAuto;
  bool peers = true;
};

fake::Options MachineOf(const Setting& setting) {
  fake::Options options = {.devices = kRanks};
  for (int from = 0; !setting.peers && from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) options.no_access.insert({from, to});
  }
  return options;
}

class Large : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    backend_ =
        NewBackend({.devices = GetParam().devices, .transport = GetParam().transport}).value();
    world_ = World::Create(backend_, {.rank_threads = false}).value();
  }
  void TearDown() override {
    buffers_.clear();
    world_.reset();
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  // [kRows, columns] of i32, far apart, and poisoned where it is used and for some elements more.
  TensorView NewRows(int rank, int64_t columns) {
    buffers_.push_back(world_->device(rank).Allocate(DType::kI8, {kRows * kPitch}).value());
    void* const data = buffers_.back().view().data();
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < columns + 4; ++column) *At(data, row, column) = kPoison;
    }
    return TensorView::Pitched(data, DType::kI32, {kRows, columns}, kPitch).value();
  }
  static int32_t* At(void* data, int64_t row, int64_t column) {
    return reinterpret_cast<int32_t*>(static_cast<char*>(data) + row * kPitch) + column;
  }
  static int32_t Value(int64_t row, int64_t column) {
    return static_cast<int32_t>(1000 * (row + 1) + column);
  }

  fake::Machine machine_{MachineOf(GetParam())};
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<Buffer> buffers_;
};

TEST_P(Large, RowsMayBeFarApart) {
  const std::vector<int64_t> columns = {3, 0, 5};
  std::vector<TensorView> shards, outputs;
  int64_t before = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int64_t own = columns[static_cast<size_t>(rank)];
    shards.push_back(NewRows(rank, own));
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < own; ++column) {
        *At(shards.back().data(), row, column) = Value(row, before + column);
      }
    }
    before += own;
  }
  for (int rank = 0; rank < kRanks; ++rank) outputs.push_back(NewRows(rank, before));
  const TensorView on_root = NewRows(2, before);
  EXPECT_OK(world_->region().AllGather(shards, outputs));
  EXPECT_OK(world_->region().Gather(shards, on_root, 2));
  EXPECT_OK(world_->Synchronize());
  outputs.push_back(on_root);
  for (const TensorView& output : outputs) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < before; ++column) {
        EXPECT_EQ(*At(output.data(), row, column), Value(row, column)) << row << ", " << column;
      }
      EXPECT_EQ(*At(output.data(), row, before), kPoison);
    }
  }
}

TEST_P(Large, ACopyTakesRowsThatAreFarApart) {
  const TensorView source = NewRows(1, 3);
  const TensorView far = NewRows(1, 3);
  Buffer near = world_->device(1).Allocate(DType::kI32, {kRows, 3}).value();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      *At(source.data(), row, column) = Value(row, column);
    }
  }
  EXPECT_OK(world_->stream(1).Copy(source, near.view()));
  EXPECT_OK(world_->stream(1).Copy(near.view(), far));
  EXPECT_OK(world_->Synchronize());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      EXPECT_EQ(*At(far.data(), row, column), Value(row, column));
    }
    EXPECT_EQ(*At(far.data(), row, 3), kPoison);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Large,
    ::testing::Values(Setting{"auto", {1, 0, 2}}, Setting{"one_gpu", {1, 1, 1}},
                      Setting{"relay", {1, 0, 2}, Transport::kAuto, false},
                      Setting{"nccl_alone", {1, 0, 2}, Transport::kNccl, false}),
    [](const auto& setting) { return setting.param.name; });

// What NCCL is called for, and would take long to do.
class LargeCount : public ::testing::Test {
 protected:
  explicit LargeCount(const fake::Options& options = {}) : machine_(options) {
    backend_ = NewBackend({.transport = Transport::kNccl}).value();
    world_ =
        World::Create(backend_, {.rank_threads = false, .close_timeout = absl::Milliseconds(10)})
            .value();
    machine_.StallCollectives(true);
  }
  ~LargeCount() override {
    while (absl::IsDeadlineExceeded(world_->Close())) {  // the abort
    }
    buffers_.clear();
    world_.reset();
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }
  TensorView New(int rank, int64_t rows, int64_t columns) {
    buffers_.push_back(world_->device(rank).Allocate(DType::kU8, {rows, columns}).value());
    return buffers_.back().view();
  }

  fake::Machine machine_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<Buffer> buffers_;
};

TEST_F(LargeCount, OfAReductionReachesNcclWhole) {
  constexpr int64_t kCount = (int64_t{1} << 32) + 3;
  EXPECT_OK(world_->region().AllReduce({New(0, 1, kCount), New(1, 1, kCount)}));
  EXPECT_EQ(machine_.largest_count(), size_t{kCount});
}

class LargeShard : public LargeCount {
 protected:
  LargeShard() : LargeCount({.no_access = {{0, 1}, {1, 0}}}) {}
};

// One row needs no workspace, and goes in one piece.
TEST_F(LargeShard, OfAGatherReachesNcclWhole) {
  constexpr int64_t kCount = (int64_t{1} << 31) + 5;
  const int64_t before = machine_.calls("ncclSend");
  EXPECT_OK(world_->region().Gather({New(0, 1, 7), New(1, 1, kCount)}, New(0, 1, kCount + 7), 0));
  EXPECT_EQ(machine_.largest_count(), size_t{kCount});
  EXPECT_EQ(machine_.calls("ncclSend"), before + 1);
}

TEST(LargeFold, ReachesElementsBeyond32Bits) {
  fake::Machine machine({.devices = 1});
  constexpr int64_t kBegin = (int64_t{1} << 32) - 5, kEnd = (int64_t{1} << 32) + 7;
  uint8_t* data[3] = {};
  Fold fold = {.dtype = DType::kU8, .input_count = 2, .output_count = 1};
  for (int i = 0; i < 3; ++i) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, kEnd + 8), cudaSuccess);
    data[i] = static_cast<uint8_t*>(memory);
    for (int64_t at = kBegin - 1; at <= kEnd; ++at) {
      data[i][at] = i < 2 ? static_cast<uint8_t>((at - kBegin) * (i + 1) + 1) : 99;
    }
  }
  fold.inputs[0] = data[0];
  fold.inputs[1] = data[1];
  fold.outputs[0] = data[2];
  fold.begin = kBegin;
  fold.end = kEnd;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(LaunchFold(fold, stream), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t at = kBegin; at < kEnd; ++at) {
    EXPECT_EQ(data[2][at], 3 * (at - kBegin) + 2) << at;
  }
  EXPECT_EQ(data[2][kBegin - 1], 99);
  EXPECT_EQ(data[2][kEnd], 99);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  for (uint8_t* memory : data) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

}  // namespace
}  // namespace mp::cuda
