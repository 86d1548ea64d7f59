// The parts of which one AllReduce is made, each on its own.  The kernels that move the data have a
// benchmark beside them (kernels/kernels_benchmark.cc: reductions, strided copies), what is made of
// the parts has doors_benchmark.cc.
//
//   bazel run --config=opt //tests/host:parts_benchmark
//
//   Plan     a call's arguments are checked and become a descriptor and a part
//   Agree    the ranks' descriptors are compared, two by two
//   Post     an operation of all ranks joins streams that are busy: post, agreement, places
//   Issue    the same on idle streams, where it runs at once: what Post has, issue, and the data
//   Launch   a kernel that does nothing, on an idle stream
//   HandOff  a strand goes on because of what another one has done, on one thread
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "mp/agreement.h"
#include "mp/base/check.h"
#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/plan.h"
#include "mp/world.h"

namespace mp {
namespace {

constexpr int64_t kCount = 64;

struct Ranks {
  explicit Ranks(int64_t n) : floats(static_cast<size_t>(n * kCount)) {
    backend = host::NewBackend({.devices = static_cast<int>(n)}).value();
    world = World::Create(backend, {.rank_threads = false}).value();
    for (int64_t r = 0; r < n; ++r) {
      views.emplace_back(floats.data() + r * kCount, DType::kF32, Shape{kCount});
    }
  }
  void Reduce() { MP_CHECK(world->region().AllReduce(views).ok()); }
  void Wait() { MP_CHECK(world->Synchronize().ok()); }

  std::vector<float> floats;
  std::vector<TensorView> views;
  std::shared_ptr<Backend> backend;
  std::unique_ptr<World> world;
};

void PlanOne(benchmark::State& state) {
  std::vector<float> floats(kCount);
  const TensorView x(floats.data(), DType::kF32, {kCount});
  for (auto _ : state) benchmark::DoNotOptimize(PlanAllReduce(x, x, {}));
}
BENCHMARK(PlanOne)->Name("Plan");

void AgreeTwo(benchmark::State& state) {
  std::vector<float> floats(kCount);
  const TensorView x(floats.data(), DType::kF32, {kCount});
  const Descriptor one = PlanAllReduce(x, x, {})->descriptor;
  const std::vector<Descriptor> a(static_cast<size_t>(state.range(0)), one), b = a;
  for (auto _ : state) benchmark::DoNotOptimize(Agree(a, b));
}
BENCHMARK(AgreeTwo)->Name("Agree/steps")->Arg(1)->Arg(8);

// A kernel holds the first rank's stream while the operations are queued.
void Post(benchmark::State& state) {
  Ranks ranks(state.range(0));
  constexpr int64_t kAtOnce = 1000;
  while (state.KeepRunningBatch(kAtOnce)) {
    state.PauseTiming();
    sync::Atomic<bool> go{false}, held{false};
    const absl::Status launched = ranks.world->stream(0).Launch([&] {
      held = true;
      while (!go.load()) sync::Yield();
    });
    MP_CHECK(launched.ok());
    while (!held.load()) sync::Yield();
    state.ResumeTiming();
    for (int64_t i = 0; i < kAtOnce; ++i) ranks.Reduce();
    state.PauseTiming();
    go = true;
    ranks.Wait();
    state.ResumeTiming();
  }
}
BENCHMARK(Post)->Name("Post/ranks")->Arg(2)->Arg(4)->Arg(8);

void Issue(benchmark::State& state) {
  Ranks ranks(state.range(0));
  for (auto _ : state) ranks.Reduce();
  ranks.Wait();
}
BENCHMARK(Issue)->Name("Issue/ranks")->Arg(2)->Arg(4)->Arg(8);

void Launch(benchmark::State& state) {
  Ranks ranks(1);
  Stream& stream = ranks.world->stream(0);
  for (auto _ : state) {
    MP_CHECK(stream.Launch([] {}).ok());
    MP_CHECK(stream.Synchronize().ok());
  }
}
BENCHMARK(Launch);

void HandOff(benchmark::State& state) {
  Ranks ranks(2);
  Stream& one = ranks.world->stream(0);
  Stream& two = ranks.world->stream(1);
  constexpr int64_t kAtOnce = 1000;
  while (state.KeepRunningBatch(2 * kAtOnce)) {
    for (int64_t i = 0; i < kAtOnce; ++i) {
      MP_CHECK(one.Wait(two.Record()).ok() && one.Launch([] {}).ok());
      MP_CHECK(two.Wait(one.Record()).ok() && two.Launch([] {}).ok());
    }
    ranks.Wait();
  }
}
BENCHMARK(HandOff)->UseRealTime();

}  // namespace
}  // namespace mp

BENCHMARK_MAIN();
