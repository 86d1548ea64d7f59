// What one small AllReduce costs as ranks, queued operations, Regions and bytes grow: flat in all
// but the ranks and the bytes, in which it is linear.
//
//   bazel run --config=opt //tests/host:growth_benchmark
//
// f32, in place, through the one-call door.  Nanoseconds an operation, the median of batches; the
// last column is what of it falls to a rank, a byte, or nothing.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "mp/base/check.h"
#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"

namespace {

constexpr int64_t kSmall = 64;  // elements

double Nanoseconds() { return absl::ToDoubleNanoseconds(mp::sync::Clock::Steady().Now()); }

// Of `body`, which does `count` operations.
template <typename Body>
double Median(int64_t count, int batches, Body body) {
  std::vector<double> times;
  for (int i = 0; i <= batches; ++i) {
    const double start = Nanoseconds();
    body();
    if (i > 0) times.push_back((Nanoseconds() - start) / static_cast<double>(count));
  }
  std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
  return times[static_cast<size_t>(batches / 2)];
}

struct Ranks {
  Ranks(int n, int64_t count) : floats(static_cast<size_t>(n * count)) {
    backend = mp::host::NewBackend({.devices = n}).value();
    world = mp::World::Create(backend, {.rank_threads = false}).value();
    for (int r = 0; r < n; ++r) {
      views.emplace_back(floats.data() + r * count, mp::DType::kF32, mp::Shape{count});
    }
  }
  void Reduce(mp::Region& region) { MP_CHECK(region.AllReduce(views).ok()); }
  void Wait() { MP_CHECK(world->Synchronize().ok()); }

  std::vector<float> floats;
  std::vector<mp::TensorView> views;
  std::shared_ptr<mp::Backend> backend;
  std::unique_ptr<mp::World> world;
};

void PrintRow(int64_t x, double time, double share) {
  std::printf("%12lld %12.1f %12.3f\n", static_cast<long long>(x), time, share);
}

void OverRanks() {
  std::printf("\n%12s %12s %12s\n", "ranks", "ns", "ns a rank");
  for (const int n : {1, 2, 4, 8, 16, 32, 64}) {
    Ranks ranks(n, kSmall);
    const double time = Median(1000, 31, [&] {
      for (int i = 0; i < 1000; ++i) ranks.Reduce(ranks.world->region());
      ranks.Wait();
    });
    PrintRow(n, time, time / n);
  }
}

// All of them are queued behind a kernel that is let go when the last one is there.
void OverQueued() {
  std::printf("\n%12s %12s %12s\n", "queued", "ns to queue", "ns to run");
  Ranks ranks(2, kSmall);
  for (const int queued : {1, 10, 100, 1000, 10'000, 100'000}) {
    std::vector<double> run;
    const int batches = queued > 1000 ? 5 : 31;
    const double queue = Median(queued, batches, [&] {
      mp::sync::Atomic<bool> go{false}, waits{false};
      MP_CHECK(ranks.world->stream(0)
                   .Launch([&] {
                     waits = true;
                     while (!go.load()) mp::sync::Yield();
                   })
                   .ok());
      while (!waits.load()) mp::sync::Yield();
      for (int i = 0; i < queued; ++i) ranks.Reduce(ranks.world->region());
      const double start = Nanoseconds();
      go = true;
      ranks.Wait();
      run.push_back((Nanoseconds() - start) / queued);
    });
    std::nth_element(run.begin(), run.begin() + batches / 2, run.end());
    const double ran = run[static_cast<size_t>(batches / 2)];
    PrintRow(queued, queue - ran, ran);
  }
}

// In turn through all of them, and through one alone while the others are there.
void OverRegions() {
  std::printf("\n%12s %12s %12s\n", "Regions", "ns in turn", "ns of one");
  Ranks ranks(2, kSmall);
  std::vector<mp::Region> regions;
  for (const size_t count : {1, 10, 100, 1000}) {
    while (regions.size() < count) regions.push_back(ranks.world->NewRegion({0, 1}).value());
    const double in_turn = Median(2000, 15, [&] {
      for (size_t i = 0; i < 2000; ++i) ranks.Reduce(regions[i % count]);
      ranks.Wait();
    });
    const double one = Median(2000, 15, [&] {
      for (int i = 0; i < 2000; ++i) ranks.Reduce(regions[0]);
      ranks.Wait();
    });
    PrintRow(static_cast<int64_t>(count), in_turn, one);
  }
}

void OverBytes() {
  std::printf("\n%12s %12s %12s\n", "bytes", "ns", "ns a byte");
  for (int64_t bytes = 256; bytes <= 16 << 20; bytes *= 4) {
    Ranks ranks(2, bytes / 4);
    const int64_t count = std::clamp<int64_t>((8 << 20) / bytes, 4, 1000);
    const double time = Median(count, 15, [&] {
      for (int64_t i = 0; i < count; ++i) ranks.Reduce(ranks.world->region());
      ranks.Wait();
    });
    PrintRow(bytes, time, time / static_cast<double>(bytes));
  }
}

}  // namespace

int main() {
  OverRanks();
  OverQueued();
  OverRegions();
  OverBytes();
  return 0;
}
