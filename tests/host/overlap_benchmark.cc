// What an AllReduce costs beside computation that keeps one core busy: 2 ranks, the computation on
// the compute stream of rank 0, the operation on the comm streams.  Ideally both take as long as
// the longer one of them does alone on one core.
//
//   bazel run --config=opt //tests/host:overlap_benchmark [-- TRACE.json]
//
// f32, in place.  Milliseconds, the median of rounds that take the three in turns.  The trace has
// the last round of each size, beside each other on the streams.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "mp/base/check.h"
#include "mp/base/sync.h"
#include "mp/chrome_trace.h"
#include "mp/host/backend.h"
#include "mp/world.h"

namespace {

constexpr int kRounds = 15;

double Milliseconds() { return absl::ToDoubleMilliseconds(mp::sync::Clock::Steady().Now()); }

double MedianOf(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

// Arithmetic without memory.
struct Arithmetic {
  int64_t steps;
  double* result;
  void operator()() const {
    double x = *result;
    for (int64_t i = 0; i < steps; ++i) x = x * 0.999999 + 1e-6;
    *result = x;
  }
};

struct Ranks {
  Ranks(mp::host::Execution execution, std::vector<mp::TensorView> tensors,
        std::shared_ptr<mp::Trace> trace)
      : views(std::move(tensors)),
        backend(mp::host::NewBackend({.devices = 2, .execution = execution}).value()),
        world(mp::World::Create(backend, {.rank_threads = false, .trace = trace}).value()) {}
  void Start() { works = world->region().StartAllReduce(views).value(); }
  void Compute(int64_t steps) {
    MP_CHECK(world->stream(0).Launch(Arithmetic{steps, &result}).ok());
  }
  void Wait() {
    for (const mp::Work& work : works) MP_CHECK(work.Synchronize().ok());
    MP_CHECK(world->Synchronize().ok());
  }

  std::vector<mp::TensorView> views;
  std::shared_ptr<mp::Backend> backend;
  std::unique_ptr<mp::World> world;
  std::vector<mp::Work> works;
  double result = 1;
};

template <typename Body>
double Time(const Body& body) {
  const double start = Milliseconds();
  body();
  return Milliseconds() - start;
}

void Row(int64_t bytes, const std::shared_ptr<mp::Trace>& trace) {
  const int64_t count = bytes / 4;
  std::vector<float> floats(static_cast<size_t>(2 * count), 0.0f);
  std::vector<mp::TensorView> views;
  for (int r = 0; r < 2; ++r) {
    views.emplace_back(floats.data() + r * count, mp::DType::kF32, mp::Shape{count});
  }
  Ranks alone(mp::host::Execution::kInline, views, nullptr);
  Ranks both(mp::host::Execution::kPool, views, nullptr);
  const auto operation = [&] {
    alone.Start();
    alone.Wait();
  };
  int64_t steps = 100000;
  const auto computation = [&] {
    alone.Compute(steps);
    alone.Wait();
  };
  const auto beside = [&steps](Ranks& ranks) {
    ranks.Start();
    ranks.Compute(steps);
    ranks.Wait();
  };
  // As long as the operation.
  operation();
  const double wanted = Time(operation);
  computation();
  steps = static_cast<int64_t>(static_cast<double>(steps) * wanted / Time(computation));
  beside(both);
  std::vector<double> of_operation, of_computation, of_both;
  for (int i = 0; i < kRounds; ++i) {
    of_operation.push_back(Time(operation));
    of_computation.push_back(Time(computation));
    of_both.push_back(Time([&] { beside(both); }));
  }
  const double longer = std::max(MedianOf(of_operation), MedianOf(of_computation));
  std::printf("%12lld %12.3f %12.3f %12.3f %12.2f\n", static_cast<long long>(bytes),
              MedianOf(of_operation), MedianOf(of_computation), MedianOf(of_both),
              MedianOf(of_both) / longer);
  if (trace == nullptr) return;
  Ranks traced(mp::host::Execution::kPool, views, trace);
  beside(traced);
}

}  // namespace

int main(int argc, char** argv) {
  const auto trace = argc > 1 ? std::make_shared<mp::Trace>() : nullptr;
  std::printf("%12s %12s %12s %12s %12s\n", "bytes", "AllReduce", "computation", "both",
              "both / longer");
  for (const int64_t bytes : {1 << 20, 4 << 20, 16 << 20, 64 << 20}) Row(bytes, trace);
  if (trace != nullptr) MP_CHECK(mp::WriteChromeTrace(*trace, argv[1]).ok());
  return 0;
}
