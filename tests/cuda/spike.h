// What the spike's tests share: a backend of either kind, tensors with values that tell where they
// come from, and the check of a gather's result.
#ifndef MP_TESTS_CUDA_SPIKE_H_
#define MP_TESTS_CUDA_SPIKE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/backend.h"
#include "mp/base/status.h"
#include "mp/cuda/backend.h"
#include "mp/host/backend.h"
#include "tests/fake/machine.h"

namespace mp {

inline constexpr float kPoison = -1;

struct Case {
  bool cuda = false;
  uint64_t seed = 0;
  int ranks = 2;
};

inline std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const Case& it = info.param;
  return absl::StrCat(it.cuda ? "Cuda" : "Host", "Ranks", it.ranks, "Seed", it.seed);
}

// Element (row, column) of rank r's tensor in some round.  Small enough that sums are exact.
inline float Value(int rank, int64_t row, int64_t column, int round = 0) {
  return static_cast<float>((rank + 1) * 100000 + round * 1000 + row * 10 + column);
}

inline float SumOfValues(int ranks, int64_t row, int64_t column) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += Value(rank, row, column);
  return sum;
}

// A tensor of host memory, which every backend's streams copy from and to.
struct Array {
  Array(int64_t row_count, int64_t column_count, float fill = kPoison)
      : rows(row_count),
        columns(column_count),
        data(static_cast<size_t>(row_count * column_count), fill) {}

  float& at(int64_t row, int64_t column) {
    return data[static_cast<size_t>(row * columns + column)];
  }
  TensorView view() { return {data.data(), DType::kF32, {rows, columns}}; }

  int64_t rows, columns;
  std::vector<float> data;
};

inline Array Shard(int rank, int64_t rows, int64_t columns, int round = 0) {
  Array shard(rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) shard.at(i, j) = Value(rank, i, j, round);
  }
  return shard;
}

inline absl::StatusOr<Buffer> ToDevice(Device& device, Stream& stream, Array& array) {
  MP_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(DType::kF32, {array.rows, array.columns}));
  MP_RETURN_IF_ERROR(stream.Copy(array.view(), buffer.view()));
  return buffer;
}

inline Array ToHost(Stream& stream, const Buffer& buffer) {
  Array array(buffer.view().shape().dim(0), buffer.view().shape().dim(1), -2);
  EXPECT_EQ(stream.Copy(buffer.view(), array.view()), absl::OkStatus());
  EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
  return array;
}

inline void ExpectSum(Array sum, int ranks) {
  for (int64_t i = 0; i < sum.rows; ++i) {
    for (int64_t j = 0; j < sum.columns; ++j) EXPECT_EQ(sum.at(i, j), SumOfValues(ranks, i, j));
  }
}

// Uneven, one of them empty with three ranks.
inline int64_t Width(int rank, int ranks) {
  if (ranks == 2) return rank == 0 ? 3 : 5;
  return rank == 1 ? 0 : 2 + rank;
}
inline int64_t Offset(int rank, int ranks) {
  int64_t offset = 0;
  for (int r = 0; r < rank; ++r) offset += Width(r, ranks);
  return offset;
}

inline constexpr int64_t kRows = 4;
inline constexpr int64_t kGap = 2;  // columns of a gather's target behind each row, never written

// The gather's result and its poisoned gap.
inline void ExpectJoined(Array target, int ranks, int round = 0) {
  for (int64_t i = 0; i < kRows; ++i) {
    for (int r = 0; r < ranks; ++r) {
      for (int64_t j = 0; j < Width(r, ranks); ++j) {
        EXPECT_EQ(target.at(i, Offset(r, ranks) + j), Value(r, i, j, round));
      }
    }
    for (int64_t j = target.columns - kGap; j < target.columns; ++j) {
      EXPECT_EQ(target.at(i, j), kPoison);
    }
  }
}

class SpikeTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().cuda) {
      machine_ = std::make_unique<fake::Machine>(
          fake::Options{.devices = ranks(), .seed = GetParam().seed});
    }
    auto made = GetParam().cuda ? cuda::NewBackend({}) : host::NewBackend({.devices = ranks()});
    ASSERT_EQ(made.status(), absl::OkStatus());
    backend_ = *std::move(made);
  }

  void TearDown() override {
    backend_.reset();
    if (machine_ == nullptr) return;
    EXPECT_EQ(machine_->Verdict(), "");
  }

  int ranks() const { return GetParam().ranks; }
  int64_t width(int rank) const { return Width(rank, ranks()); }
  int64_t joined() const { return Offset(ranks(), ranks()); }

  // `buffer` without the gap.
  TensorView Target(const Buffer& buffer) const { return *buffer.view().Columns(0, joined()); }

  std::unique_ptr<fake::Machine> machine_;
  std::shared_ptr<Backend> backend_;
};

inline std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int ranks : {2, 3}) {
    cases.push_back({.cuda = false, .seed = 0, .ranks = ranks});
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      cases.push_back({.cuda = true, .seed = seed, .ranks = ranks});
    }
  }
  return cases;
}

}  // namespace mp

#endif  // MP_TESTS_CUDA_SPIKE_H_
