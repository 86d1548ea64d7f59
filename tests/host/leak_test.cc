// SHUT-3: memory, threads and files stay where they are over a thousand Worlds, thousands of
// Regions and a million operations.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/allocations.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

int EntriesOf(const char* folder) {
  DIR* const entries = opendir(folder);
  int count = 0;
  while (readdir(entries) != nullptr) ++count;
  closedir(entries);
  return count;
}

// What a pool may have grown by; a few bytes for each of the many times are more.
constexpr int64_t kNoise = 16 << 10;

// `body` is done `first` times, and then as often as is said without a trace.
template <typename Body>
void ExpectFlat(int first, int times, const Body& body) {
  for (int i = 0; i < first; ++i) body();
  const int64_t bytes = LiveBytes();
  const int threads = EntriesOf("/proc/self/task"), files = EntriesOf("/proc/self/fd");
  for (int i = 0; i < times; ++i) body();
  EXPECT_LE(LiveBytes() - bytes, kNoise);
  EXPECT_EQ(EntriesOf("/proc/self/task"), threads);
  EXPECT_EQ(EntriesOf("/proc/self/fd"), files);
}

struct Ranks {
  Ranks() {
    for (float& x : data) views.emplace_back(&x, DType::kF32, Shape{1});
  }
  void Reduce(World& world) {
    EXPECT_OK(world.region().AllReduce(views));
    EXPECT_OK(world.Synchronize());
  }
  float data[3] = {};
  std::vector<TensorView> views;
};

absl::Status Slot(Rank& rank) { return rank.region().AcquireSlot(); }

TEST(Shut3, AThousandWorldsLeaveNothing) {
  Ranks ranks;
  const auto backend = host::NewBackend({.devices = 3}).value();
  ExpectFlat(20, 980, [&] {
    const auto world = World::Create(backend).value();
    ranks.Reduce(*world);
    EXPECT_OK(world->Run(Slot));
  });
  ExpectFlat(5, 195, [&] {
    const auto own = host::NewBackend({.devices = 3}).value();
    ranks.Reduce(*World::Create(own).value());
  });
}

TEST(Shut3, ThousandsOfRegionsLeaveNothing) {
  const auto backend = host::NewBackend({.devices = 3}).value();
  const auto world = World::Create(backend).value();
  ExpectFlat(500, 3000, [&] {
    Region region = world->NewRegion({2, 1}).value();
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      if (rank.id() == 0) return absl::OkStatus();
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      return mine.AcquireSlot();
    }));
    region.Close();
  });
}

TEST(Shut3, AMillionOperationsLeaveNothing) {
  Ranks ranks;
  const auto backend = host::NewBackend({.devices = 3}).value();
  const auto world = World::Create(backend).value();
  ExpectFlat(1000, 1'000'000, [&] { ranks.Reduce(*world); });
  ExpectFlat(10, 50, [&] {
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      for (int i = 0; i < 300; ++i) {
        MP_RETURN_IF_ERROR(rank.region().AllReduce(ranks.views[static_cast<size_t>(rank.id())]));
      }
      return rank.stream().Synchronize();
    }));
  });
}

}  // namespace
}  // namespace mp::test
