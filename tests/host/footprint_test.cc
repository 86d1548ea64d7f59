// What a World takes beside the tensors stays below 1 MiB and 64 KiB a rank, whatever they hold:
// what malloc has given at the most, and what the kernel counts as memory of the process's own, so
// with the stacks of its threads.
//
// The tensors are many views of one small file in memory, which the kernel does not count there:
// 2 GiB of eight ranks fit on any machine.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/check.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/allocations.h"
#include "tests/support/child.h"

namespace mp::test {
namespace {

constexpr size_t kFileBytes = 2 << 20;
constexpr size_t kMostBytes = 256 << 20;
constexpr int64_t kSizes[] = {4, 4 << 10, 60'000, 1 << 20, 16 << 20, kMostBytes};

// `kMostBytes` of addresses, all of them zeros of one file.
void* Addresses(int file) {
  char* const all = static_cast<char*>(
      mmap(nullptr, kMostBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  MP_CHECK(all != MAP_FAILED);
  for (size_t at = 0; at < kMostBytes; at += kFileBytes) {
    MP_CHECK(mmap(all + at, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
             MAP_FAILED);
  }
  return all;
}

// The pages of the process that are no file's.
int64_t OwnBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib << 10;
  }
  return -1;
}

// Of ranks that reduce and gather tensors of `bytes`, through both doors.
absl::Status Work(World& world, const std::vector<void*>& data, int64_t bytes) {
  const int64_t ranks = world.world_size(), count = bytes / 4;
  const auto view = [&](int rank, const Shape& shape) {
    return TensorView(data[static_cast<size_t>(rank)], DType::kF32, shape);
  };
  std::vector<TensorView> all;
  for (int r = 0; r < ranks; ++r) all.push_back(view(r, {count}));
  MP_RETURN_IF_ERROR(world.region().AllReduce(all));
  MP_RETURN_IF_ERROR(world.Synchronize());
  return world.Run([&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(rank.region().AllReduce(view(rank.id(), {count})));
    // A rank's shard lies in the half of its own memory that its result does not use.
    const int64_t columns = std::max<int64_t>(count / 2 / ranks / 8, 1);
    if (count < 32 * ranks) return rank.stream().Synchronize();
    auto* const half = static_cast<float*>(data[static_cast<size_t>(rank.id())]) + count / 2;
    MP_RETURN_IF_ERROR(rank.region().AllGather(TensorView(half, DType::kF32, {8, columns}),
                                               view(rank.id(), {8, ranks * columns})));
    return rank.stream().Synchronize();
  });
}

class FootprintOf : public ::testing::TestWithParam<int> {};

// Each in a process that has made no World before, so that all threads and their stacks are new.
TEST_P(FootprintOf, DoesNotGrowWithTheMessage) {
  const int ranks = GetParam();
  const std::string found = InChild([&]() -> std::string {
    const int file = memfd_create("tensors", 0);
    MP_CHECK(file >= 0 && ftruncate(file, kFileBytes) == 0);
    std::vector<void*> data;
    for (int r = 0; r < ranks; ++r) data.push_back(Addresses(file));
    const int64_t heap = LiveBytes(), own = OwnBytes(), most = (1 << 20) + ranks * (64 << 10);
    ResetPeakBytes();
    auto backend = host::NewBackend({.devices = ranks});
    if (!backend.ok()) return backend.status().ToString();
    auto world = World::Create(*backend);
    if (!world.ok()) return world.status().ToString();
    for (const int64_t bytes : kSizes) {
      const absl::Status worked = Work(**world, data, bytes);
      if (!worked.ok()) return worked.ToString();
      const int64_t of_heap = PeakBytes() - heap, of_own = OwnBytes() - own;
      if (of_heap > most || of_own > most || own <= 0) {
        return absl::StrCat(bytes, " bytes: ", of_heap, " of malloc, ", of_own, " in all, of ",
                            most);
      }
      if (bytes == kMostBytes) {
        std::printf("%d ranks: %lld KiB of malloc, %lld KiB in all\n", ranks,
                    static_cast<long long>(of_heap >> 10), static_cast<long long>(of_own >> 10));
        std::fflush(stdout);
      }
    }
    return "";
  });
  EXPECT_EQ(found, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, FootprintOf, ::testing::Values(2, 3, 4, 8));

}  // namespace
}  // namespace mp::test
