// How the table of words is split: by columns, joined by an AllGather of shards in their slots, or
// by vocabulary, summed by an AllReduce.  Both from ids to the same rows on every rank, for 1,024
// tokens of 384 columns and 30,522 words; wall time of a batch.
//
//   bazel run --config=opt //tests/model:embedding_benchmark
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "mp/base/check.h"
#include "mp/host/backend.h"
#include "mp/model/split.h"
#include "mp/world.h"

namespace mp::model {
namespace {

constexpr int64_t kTokens = 1024, kHidden = 384, kWords = 30522;

std::vector<int64_t> Ids() {
  std::mt19937_64 random(1);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kTokens; ++i) {
    ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(kWords)));
  }
  return ids;
}

struct ByColumns {
  const std::vector<int64_t>* ids;
  TensorView table, rows;
  void operator()() const {
    for (int64_t i = 0; i < kTokens; ++i) {
      std::memcpy(static_cast<char*>(rows.data()) + i * rows.row_pitch(),
                  static_cast<const char*>(table.data()) +
                      (*ids)[static_cast<size_t>(i)] * table.row_pitch(),
                  static_cast<size_t>(rows.row_bytes()));
    }
  }
};

struct ByVocabulary {
  const std::vector<int64_t>* ids;
  TensorView table, rows;
  Slice words;
  void operator()() const {
    for (int64_t i = 0; i < kTokens; ++i) {
      const int64_t word = (*ids)[static_cast<size_t>(i)] - words.begin;
      char* row = static_cast<char*>(rows.data()) + i * rows.row_pitch();
      const auto bytes = static_cast<size_t>(rows.row_bytes());
      if (word < 0 || word >= words.size) {
        std::memset(row, 0, bytes);
      } else {
        std::memcpy(row, static_cast<const char*>(table.data()) + word * table.row_pitch(), bytes);
      }
    }
  }
};

absl::Status Columns(Rank& rank, const std::vector<int64_t>& ids, const TensorView& joined,
                     int64_t batches) {
  const std::vector<int64_t> sizes = SizesOf(kHidden, rank.world_size());
  MP_ASSIGN_OR_RETURN(const TensorView slot, rank.region().Slot(joined, rank.id(), sizes));
  MP_ASSIGN_OR_RETURN(const Buffer table,
                      rank.device().Allocate(DType::kF32, {kWords, slot.shape().columns()}));
  std::memset(table.data(), 0, static_cast<size_t>(table.view().size_bytes()));
  for (int64_t i = 0; i < batches; ++i) {
    MP_RETURN_IF_ERROR(rank.stream().Launch(ByColumns{&ids, table.view(), slot}));
    MP_RETURN_IF_ERROR(rank.region().AllGather(slot, joined, {.shared_output = true}));
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
  }
  return rank.stream().Synchronize();
}

absl::Status Vocabulary(Rank& rank, const std::vector<int64_t>& ids, int64_t batches) {
  const Slice words = SliceOf(kWords, rank.world_size(), rank.id());
  MP_ASSIGN_OR_RETURN(const Buffer table,
                      rank.device().Allocate(DType::kF32, {words.size, kHidden}));
  MP_ASSIGN_OR_RETURN(const Buffer rows, rank.device().Allocate(DType::kF32, {kTokens, kHidden}));
  std::memset(table.data(), 0, static_cast<size_t>(table.view().size_bytes()));
  for (int64_t i = 0; i < batches; ++i) {
    MP_RETURN_IF_ERROR(rank.stream().Launch(ByVocabulary{&ids, table.view(), rows.view(), words}));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(rows.view()));
  }
  return rank.stream().Synchronize();
}

void Embedding(benchmark::State& state, bool by_columns) {
  const auto ranks = static_cast<int>(state.range(0));
  const std::vector<int64_t> ids = Ids();
  auto backend = host::NewBackend({.devices = ranks});
  MP_CHECK(backend.ok());
  auto world = World::Create(*backend);
  MP_CHECK(world.ok());
  auto joined = (*world)->device(0).Allocate(DType::kF32, {kTokens, kHidden});
  MP_CHECK(joined.ok());
  constexpr int64_t kBatches = 200;
  for (auto _ : state) {
    const absl::Status status = (*world)->Run([&](Rank& rank) {
      return by_columns ? Columns(rank, ids, joined->view(), kBatches)
                        : Vocabulary(rank, ids, kBatches);
    });
    MP_CHECK(status.ok());
  }
  state.SetItemsProcessed(state.iterations() * kBatches);
}

BENCHMARK_CAPTURE(Embedding, by_columns, true)->Arg(2)->Arg(4)->UseRealTime();
BENCHMARK_CAPTURE(Embedding, by_vocabulary, false)->Arg(2)->Arg(4)->UseRealTime();

}  // namespace
}  // namespace mp::model

BENCHMARK_MAIN();
