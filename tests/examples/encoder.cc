// A tensor-parallel transformer encoder on 1, 2, 3 and 4 ranks of one process: heads and
// feed-forward columns are split over the ranks, the two products behind them are summed by
// AllReduce, and each rank pools its columns, which Gather joins on rank 0.
#include <cmath>
#include <cstdio>
#include <vector>

#include "mp/host/backend.h"
#include "mp/world.h"

constexpr int kTokens = 6, kHidden = 24, kHeads = 4, kSize = kHidden / kHeads, kInner = 40,
              kLayers = 2;

// Any fixed function of its place stands for a trained weight.
float Weight(int layer, int matrix, int row, int column) {
  return 0.3f * std::sin(static_cast<float>(131 * layer + 37 * matrix + 11 * row + 7 * column));
}

struct Part {  // this rank's run of `total` things
  int begin, end;
  static Part Of(int total, int rank, int ranks) {
    return {total * rank / ranks, total * (rank + 1) / ranks};
  }
};

using Rows = std::vector<float>;  // [kTokens, columns]

float Dot(const Rows& x, int token, int columns, int first_row, int layer, int matrix, int column) {
  float sum = 0;
  for (int i = 0; i < columns; ++i) {
    sum +=
        x[static_cast<size_t>(token * columns + i)] * Weight(layer, matrix, first_row + i, column);
  }
  return sum;
}

// y = this rank's share of attention's output, before the sum over ranks.
struct Attention {
  static constexpr char kName[] = "Attention";
  const Rows* x;
  int layer;
  Part heads;
  float* y;
  void operator()() const {
    const int width = (heads.end - heads.begin) * kSize, first = heads.begin * kSize;
    Rows context(static_cast<size_t>(kTokens * width));
    for (int column = 0; column < width; ++column) {
      const int head = (first + column) / kSize * kSize;
      for (int t = 0; t < kTokens; ++t) {
        float sum = 0, out = 0;
        for (int s = 0; s < kTokens; ++s) {
          float score = 0;
          for (int d = head; d < head + kSize; ++d) {
            score += Dot(*x, t, kHidden, 0, layer, 0, d) * Dot(*x, s, kHidden, 0, layer, 1, d);
          }
          const float weight = std::exp(score / std::sqrt(static_cast<float>(kSize)));
          sum += weight;
          out += weight * Dot(*x, s, kHidden, 0, layer, 2, first + column);
        }
        context[static_cast<size_t>(t * width + column)] = out / sum;
      }
    }
    for (int i = 0; i < kTokens * kHidden; ++i) {
      y[i] = Dot(context, i / kHidden, width, first, layer, 3, i % kHidden);
    }
  }
};

// y = this rank's share of the feed-forward block, before the sum over ranks.
struct FeedForward {
  static constexpr char kName[] = "Feed forward";
  const Rows* x;
  int layer;
  Part inner;
  float* y;
  void operator()() const {
    const int width = inner.end - inner.begin;
    Rows up(static_cast<size_t>(kTokens * width));
    for (int i = 0; i < kTokens * width; ++i) {
      const float sum = Dot(*x, i / width, kHidden, 0, layer, 4, inner.begin + i % width);
      up[static_cast<size_t>(i)] = std::max(sum, 0.0f);
    }
    for (int i = 0; i < kTokens * kHidden; ++i) {
      y[i] = Dot(up, i / kHidden, width, inner.begin, layer, 5, i % kHidden);
    }
  }
};

// x = norm(x + y), on every rank alike.
struct AddAndNorm {
  static constexpr char kName[] = "Add and norm";
  Rows* x;
  const float* y;
  void operator()() const {
    for (int t = 0; t < kTokens; ++t) {
      float *row = x->data() + t * kHidden, mean = 0, variance = 0;
      for (int i = 0; i < kHidden; ++i) mean += (row[i] += y[t * kHidden + i]) / kHidden;
      for (int i = 0; i < kHidden; ++i) variance += (row[i] - mean) * (row[i] - mean) / kHidden;
      for (int i = 0; i < kHidden; ++i) row[i] = (row[i] - mean) / std::sqrt(variance + 1e-6f);
    }
  }
};

// The mean over the tokens, of this rank's columns.
struct Pool {
  static constexpr char kName[] = "Pool";
  const Rows* x;
  Part columns;
  float* out;
  void operator()() const {
    for (int i = columns.begin; i < columns.end; ++i) {
      float sum = 0;
      for (int t = 0; t < kTokens; ++t) sum += (*x)[static_cast<size_t>(t * kHidden + i)];
      out[i - columns.begin] = sum / kTokens;
    }
  }
};

absl::Status Encode(mp::Rank& rank, float* result) {
  const int r = rank.id(), n = rank.world_size();
  const Part columns = Part::Of(kHidden, r, n);
  Rows x(kTokens * kHidden);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
  MP_ASSIGN_OR_RETURN(mp::Buffer y, rank.device().Allocate(mp::DType::kF32, {kTokens, kHidden}));
  MP_ASSIGN_OR_RETURN(mp::Buffer pooled,
                      rank.device().Allocate(mp::DType::kF32, {columns.end - columns.begin}));
  auto* partial = static_cast<float*>(y.data());
  for (int layer = 0; layer < kLayers; ++layer) {
    MP_RETURN_IF_ERROR(rank.stream().Launch(Attention{&x, layer, Part::Of(kHeads, r, n), partial}));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));
    MP_RETURN_IF_ERROR(rank.stream().Launch(AddAndNorm{&x, partial}));
    MP_RETURN_IF_ERROR(
        rank.stream().Launch(FeedForward{&x, layer, Part::Of(kInner, r, n), partial}));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));
    MP_RETURN_IF_ERROR(rank.stream().Launch(AddAndNorm{&x, partial}));
  }
  MP_RETURN_IF_ERROR(rank.stream().Launch(Pool{&x, columns, static_cast<float*>(pooled.data())}));
  const mp::TensorView joined(r == 0 ? result : nullptr, mp::DType::kF32, {kHidden});
  MP_RETURN_IF_ERROR(rank.region().Gather(pooled.view(), r == 0 ? joined : mp::TensorView(), 0));
  return rank.stream().Synchronize();  // the host waits here, and nowhere before
}

absl::Status Main() {
  Rows first(kHidden);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    MP_ASSIGN_OR_RETURN(auto backend, mp::host::NewBackend({.devices = ranks}));
    MP_ASSIGN_OR_RETURN(auto world, mp::World::Create(backend));
    Rows result(kHidden);
    MP_RETURN_IF_ERROR(world->Run([&](mp::Rank& rank) { return Encode(rank, result.data()); }));
    if (ranks == 1) first = result;
    float apart = 0;
    for (size_t i = 0; i < kHidden; ++i) apart = std::max(apart, std::abs(result[i] - first[i]));
    if (apart > 1e-4f) return mp::InvalidArgument(ranks, " ranks differ by ", apart);
  }
  std::printf("1, 2, 3 and 4 ranks agree: %.3f %.3f %.3f ...\n", first[0], first[1], first[2]);
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Main();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
