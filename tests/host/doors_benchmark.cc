// What one small AllReduce costs through each door, beside a bare loop over the same memory that
// has no scheduler at all.
//
//   bazel run --config=opt //tests/host:doors_benchmark
//
// f32, sums in place, n ranks on one machine.  `bare` is one thread that adds and stores; `call` is
// the one-call door, streams idle; `call+wait` waits for all streams each time; `rank` is n rank
// threads that each post and wait.  Times are the median of batches, in microseconds an
// operation; ratios are against `bare` of the same row.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"

namespace {

constexpr int kBatches = 31;

double Microseconds() { return absl::ToDoubleMicroseconds(mp::sync::Clock::Steady().Now()); }

template <typename Body>
double MedianOfBatches(int count, Body body) {
  std::vector<double> times;
  body(count);
  for (int i = 0; i < kBatches; ++i) {
    const double start = Microseconds();
    body(count);
    times.push_back((Microseconds() - start) / count);
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

// Block by block, so that a compiler that knows nothing of the pointers can still use vectors.
__attribute__((noinline, optimize("O3"))) void BareSum(float* const* x, int ranks, int64_t count) {
  constexpr int64_t kBlock = 1024;
  alignas(64) float sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    std::copy_n(x[0] + begin, size, sum);
    for (int r = 1; r < ranks; ++r) {
      const float* term = x[r] + begin;
      for (int64_t i = 0; i < size; ++i) sum[i] += term[i];
    }
    for (int r = 0; r < ranks; ++r) std::copy_n(sum, size, x[r] + begin);
  }
}

absl::Status Row(int ranks, int64_t count) {
  MP_ASSIGN_OR_RETURN(auto backend, mp::host::NewBackend({.devices = ranks}));
  MP_ASSIGN_OR_RETURN(auto world, mp::World::Create(backend));
  std::vector<mp::Buffer> buffers;
  std::vector<mp::TensorView> views;
  std::vector<float*> data;
  for (int r = 0; r < ranks; ++r) {
    MP_ASSIGN_OR_RETURN(mp::Buffer buffer, world->device(r).Allocate(mp::DType::kF32, {count}));
    data.push_back(static_cast<float*>(buffer.data()));
    std::fill_n(data.back(), count, 0.0f);
    views.push_back(buffer.view());
    buffers.push_back(std::move(buffer));
  }
  const int batch = count > 100'000 ? 20 : 2000;
  absl::Status status;
  const auto keep = [&](absl::Status one) {
    if (status.ok()) status = std::move(one);
  };
  const double bare = MedianOfBatches(batch, [&](int n) {
    for (int i = 0; i < n; ++i) BareSum(data.data(), ranks, count);
  });
  const double call = MedianOfBatches(batch, [&](int n) {
    for (int i = 0; i < n; ++i) keep(world->region().AllReduce(views));
    keep(world->Synchronize());
  });
  const double waited = MedianOfBatches(batch, [&](int n) {
    for (int i = 0; i < n; ++i) {
      keep(world->region().AllReduce(views));
      keep(world->Synchronize());
    }
  });
  double door = 0;
  keep(world->Run([&](mp::Rank& rank) -> absl::Status {
    const mp::TensorView& x = views[static_cast<size_t>(rank.id())];
    absl::Status first;
    const double time = MedianOfBatches(batch, [&](int n) {
      for (int i = 0; i < n && first.ok(); ++i) {
        first = rank.region().AllReduce(x);
        if (first.ok()) first = rank.stream().Synchronize();
      }
    });
    if (rank.id() == 0) door = time;
    return first;
  }));
  std::printf("%6d %10lld %9.3f %9.3f %6.2f %9.3f %6.2f %9.3f %6.2f\n", ranks,
              static_cast<long long>(count * 4), bare, call, call / bare, waited, waited / bare,
              door, door / bare);
  return status;
}

absl::Status Main() {
  std::printf("%6s %10s %9s %9s %6s %9s %6s %9s %6s\n", "ranks", "bytes", "bare", "call", "ratio",
              "call+wait", "ratio", "rank", "ratio");
  for (const int ranks : {2, 4, 8}) {
    for (const int64_t count : {64, 1024, 16384, 262144, 4194304}) {
      MP_RETURN_IF_ERROR(Row(ranks, count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Main();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
