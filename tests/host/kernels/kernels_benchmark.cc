// How near the kernels come to bare loops that know everything at compile time: the number of
// ranks, the machine, the alignment.  `ratio` is the bare loop's time over the kernel's, both
// measured in turn in one process, so that 1 is as fast and less is slower; `GB/s` counts what the
// kernel reads and writes.
//
//   bazel run --config=opt //tests/host/kernels:kernels_benchmark
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "mp/base/sync.h"
#include "mp/dtype.h"
#include "mp/host/kernels/copy.h"
#include "mp/host/kernels/fold.h"

namespace mp::host {
namespace {

// Bytes on a page boundary plus `skew`, never moved, and touched before the first measurement.
class Bytes {
 public:
  explicit Bytes(int64_t size, int64_t skew = 0)
      : memory_(static_cast<uint8_t*>(
            std::aligned_alloc(4096, static_cast<size_t>((size + skew) / 4096 + 1) * 4096))),
        data_(memory_.get() + skew) {
    std::memset(data_, 0, static_cast<size_t>(size));
  }
  uint8_t* data() const { return data_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  uint8_t* data_;
};

// Runs both in turn until the benchmark has enough, and reports medians over the rounds.
template <class Bare, class Kernel>
void Compare(benchmark::State& state, int64_t bytes, Bare bare, Kernel kernel) {
  const auto seconds = [](auto& work, int64_t repeats) {
    const absl::Duration start = sync::Clock::Steady().Now();
    for (int64_t i = 0; i < repeats; ++i) {
      work();
      benchmark::ClobberMemory();
    }
    return absl::ToDoubleSeconds(sync::Clock::Steady().Now() - start);
  };
  int64_t repeats = 1;
  while (seconds(kernel, repeats) < 100e-6) repeats *= 2;
  std::vector<double> ratios;
  std::vector<double> times;
  for (auto _ : state) {
    const double bare_time = seconds(bare, repeats);
    const double kernel_time = seconds(kernel, repeats);
    ratios.push_back(bare_time / kernel_time);
    times.push_back(kernel_time / static_cast<double>(repeats));
    state.SetIterationTime(times.back());
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  state.counters["ratio"] = median(ratios);
  state.counters["GB/s"] = static_cast<double>(bytes) / median(times) * 1e-9;
}

// --------------------------------------------------------------------------------------- fold

template <int kVectorBytes>
struct Vector;
template <>
struct Vector<64> {
  typedef float Type __attribute__((vector_size(64)));
};
template <>
struct Vector<32> {
  typedef float Type __attribute__((vector_size(32)));
};
template <>
struct Vector<16> {
  typedef float Type __attribute__((vector_size(16)));
};

// A cache line of every input is added and stored to every output.
#define MP_BARE_SUM(name, bytes, target)                                               \
  template <int kRanks>                                                                \
  target void name(const float* const* inputs, float* const* outputs, int64_t count) { \
    using V = Vector<bytes>::Type;                                                     \
    constexpr int kVectors = 64 / bytes;                                               \
    for (int64_t i = 0; i < count; i += 16) {                                          \
      V sum[kVectors];                                                                 \
      for (int j = 0; j < kVectors; ++j) sum[j] = *Line<const V>(inputs[0] + i, j);    \
      for (int r = 1; r < kRanks; ++r) {                                               \
        for (int j = 0; j < kVectors; ++j) sum[j] += *Line<const V>(inputs[r] + i, j); \
      }                                                                                \
      for (int k = 0; k < kRanks; ++k) {                                               \
        for (int j = 0; j < kVectors; ++j) *Line<V>(outputs[k] + i, j) = sum[j];       \
      }                                                                                \
    }                                                                                  \
  }

template <class V, class T>
__attribute__((always_inline)) inline V* Line(T* start, int j) {
  return reinterpret_cast<V*>(start) + j;
}

#if defined(__x86_64__)
MP_BARE_SUM(BareSum64, 64, __attribute__((target("avx512f"), optimize("O3"))))
MP_BARE_SUM(BareSum32, 32, __attribute__((target("avx2"), optimize("O3"))))
#endif
MP_BARE_SUM(BareSum16, 16, __attribute__((optimize("O3"))))

template <int kRanks>
auto BareSum() -> void (*)(const float* const*, float* const*, int64_t) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return BareSum64<kRanks>;
  if (__builtin_cpu_supports("avx2")) return BareSum32<kRanks>;
#endif
  return BareSum16<kRanks>;
}

enum class Place { kIn, kOut };

// state.range(0): bytes of one rank.
template <int kRanks, Place kPlace>
void FoldF32Sum(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  std::vector<Bytes> buffers;
  const void* inputs[kRanks];
  void* outputs[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    buffers.emplace_back(bytes);
    inputs[r] = outputs[r] = buffers.back().data();
  }
  if (kPlace == Place::kOut) {
    for (int k = 0; k < kRanks; ++k) {
      buffers.emplace_back(bytes);
      outputs[k] = buffers.back().data();
    }
  }
  const auto bare = BareSum<kRanks>();
  const FoldFn fold = FoldFor(DType::kF32, ReduceOp::kSum);
  Compare(
      state, 2 * kRanks * bytes,
      [&] {
        bare(reinterpret_cast<const float* const*>(inputs),
             reinterpret_cast<float* const*>(outputs), bytes / 4);
      },
      [&] { fold(inputs, kRanks, outputs, kRanks, 0, bytes / 4, {}); });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(300)->RangeMultiplier(4)->Range(1 << 10, 1 << 20);
}
BENCHMARK_TEMPLATE(FoldF32Sum, 2, Place::kIn)->Apply(Sizes);
BENCHMARK_TEMPLATE(FoldF32Sum, 4, Place::kIn)->Apply(Sizes);
BENCHMARK_TEMPLATE(FoldF32Sum, 8, Place::kIn)->Apply(Sizes);
BENCHMARK_TEMPLATE(FoldF32Sum, 2, Place::kOut)->Apply(Sizes);
BENCHMARK_TEMPLATE(FoldF32Sum, 4, Place::kOut)->Apply(Sizes);
BENCHMARK_TEMPLATE(FoldF32Sum, 8, Place::kOut)->Apply(Sizes);

// Any type against the bare f32 sum of as many bytes.  state.range(0): the DType; (1): the op.
void FoldOther(benchmark::State& state) {
  constexpr int kRanks = 4;
  constexpr int64_t kBytes = 16 << 10;
  const auto dtype = static_cast<DType>(state.range(0));
  const auto op = static_cast<ReduceOp>(state.range(1));
  std::vector<Bytes> buffers;
  const void* inputs[kRanks];
  void* outputs[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    buffers.emplace_back(kBytes);
    inputs[r] = outputs[r] = buffers.back().data();
  }
  const auto bare = BareSum<kRanks>();
  state.SetLabel(std::string(DTypeName(dtype)) + " " + std::string(ReduceOpName(op)));
  Compare(
      state, 2 * kRanks * kBytes,
      [&] {
        bare(reinterpret_cast<const float* const*>(inputs),
             reinterpret_cast<float* const*>(outputs), kBytes / 4);
      },
      [&] { FoldFor(dtype, op)(inputs, kRanks, outputs, kRanks, 0, kBytes / SizeOf(dtype), {}); });
}
BENCHMARK(FoldOther)->UseManualTime()->Iterations(100)->Apply([](auto* benchmark) {
  for (int dtype = 0; dtype <= static_cast<int>(DType::kU64); ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      if (FoldFor(static_cast<DType>(dtype), static_cast<ReduceOp>(op)) != nullptr) {
        benchmark->Args({dtype, op});
      }
    }
  }
});

// --------------------------------------------------------------------------------------- copy

// One row's block of a gather along the last dimension of four ranks, against memcpy for each row.
// state.range(0): bytes of a row; (1): rows.
void CopyRowsToMemcpy(benchmark::State& state) {
  const int64_t row_bytes = state.range(0);
  const int64_t rows = state.range(1);
  const int64_t pitch = 4 * row_bytes;
  const Bytes from(row_bytes * rows);
  const Bytes to(pitch * rows, 64);
  Compare(
      state, 2 * row_bytes * rows,
      [&] {
        for (int64_t row = 0; row < rows; ++row) {
          std::memcpy(to.data() + row * pitch, from.data() + row * row_bytes,
                      static_cast<size_t>(row_bytes));
        }
      },
      [&] { CopyRows(to.data(), pitch, from.data(), row_bytes, row_bytes, rows, false); });
}
BENCHMARK(CopyRowsToMemcpy)
    ->UseManualTime()
    ->Iterations(300)
    ->ArgsProduct({{4, 16, 24, 48, 64, 96, 128, 256, 1024, 4096, 16384}, {64}})
    ->Args({1 << 20, 1});

// 64 bytes a row: the loop that one would write by hand.
void CopyRowsOfALine(benchmark::State& state) {
  constexpr int64_t kRow = 64;
  const int64_t rows = state.range(0);
  const Bytes from(kRow * rows);
  const Bytes to(4 * kRow * rows, 64);
  Compare(
      state, 2 * kRow * rows,
      [&] {
        typedef float V __attribute__((vector_size(16)));
        for (int64_t row = 0; row < rows; ++row) {
          const V* source = reinterpret_cast<const V*>(from.data() + row * kRow);
          V* target = reinterpret_cast<V*>(to.data() + row * 4 * kRow);
          const V a = source[0], b = source[1], c = source[2], d = source[3];
          target[0] = a, target[1] = b, target[2] = c, target[3] = d;
        }
      },
      [&] { CopyRows(to.data(), 4 * kRow, from.data(), kRow, kRow, rows, false); });
}
BENCHMARK(CopyRowsOfALine)->UseManualTime()->Iterations(300)->Arg(8)->Arg(64)->Arg(1024);

// Out of memory: streaming stores against memcpy of the whole.  state.range(0): bytes.
void CopyStreamingToMemcpy(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const Bytes from(bytes);
  const Bytes to(bytes, 64);
  Compare(
      state, 2 * bytes, [&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes)); },
      [&] { CopyRows(to.data(), bytes, from.data(), bytes, bytes, 1, true); });
}
BENCHMARK(CopyStreamingToMemcpy)->UseManualTime()->Iterations(20)->Arg(64 << 20);

}  // namespace
}  // namespace mp::host

BENCHMARK_MAIN();
