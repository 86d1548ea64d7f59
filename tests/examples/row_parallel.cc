// A row-parallel layer on four ranks: each multiplies its columns of x with its rows of w, and
// AllReduce sums the partial results.
#include <cstdio>

#include "mp/host/backend.h"
#include "mp/world.h"

// Partial result of one rank: y[j] = sum over its own two inputs i of x[i] * w[i][j].
struct PartialProduct {
  int rank;
  mp::TensorView y;
  void operator()() const {
    auto* out = static_cast<float*>(y.data());
    for (int j = 0; j < 3; ++j) {
      out[j] = 0;
      for (int i = 2 * rank; i < 2 * rank + 2; ++i) {
        out[j] += static_cast<float>(i) * static_cast<float>(10 * i + j);
      }
    }
  }
};

absl::Status Layer(mp::Rank& rank) {
  MP_ASSIGN_OR_RETURN(mp::Buffer y, rank.device().Allocate(mp::DType::kF32, {3}));
  MP_RETURN_IF_ERROR(rank.stream().Launch(PartialProduct{rank.id(), y.view()}));
  MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));  // every rank: the sum
  MP_RETURN_IF_ERROR(rank.stream().Synchronize());
  const auto* sum = static_cast<const float*>(y.data());
  if (rank.id() == 0) std::printf("%g %g %g\n", sum[0], sum[1], sum[2]);
  return absl::OkStatus();
}

absl::Status Main() {
  MP_ASSIGN_OR_RETURN(auto backend, mp::host::NewBackend({.devices = 4}));
  MP_ASSIGN_OR_RETURN(auto world, mp::World::Create(backend));
  return world->Run(Layer);
}

int main() {
  const absl::Status status = Main();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
