// Shows that memory is freed when the work that may use it is done and no sooner (STR-2): streams
// run step by step, and after each step it is asked what is still kept.  A kernel that looks at
// memory freed too early finds another tensor in it, or ends the test under AddressSanitizer.

#include "mp/host/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/host/by_hand.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

using ::testing::HasSubstr;

TEST(Memory, IsOnItsBoundaryAndAsLargeAsAsked) {
  Memory memory;
  std::vector<void*> blocks;
  std::set<void*> different;
  for (const int64_t bytes : {0, 1, 2, 127, 128, 129, 4096, 1000000}) {
    ASSERT_OK_AND_ASSIGN(void* const data, memory.Allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 128, 0u);
    std::memset(data, 0x5a, static_cast<size_t>(bytes));
    blocks.push_back(data);
    different.insert(data);
  }
  EXPECT_EQ(different.size(), blocks.size());
  for (void* const data : blocks) memory.Free(data);
  EXPECT_EQ(memory.deferred_count(), 0);
}

TEST(Memory, RefusesWhatCannotBe) {
  Memory memory;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t bytes : {kMost, kMost - 1, kMost - 126}) {
    EXPECT_THAT(memory.Allocate(bytes),
                test::KindIs(ErrorKind::kDeviceError, HasSubstr(absl::StrCat(bytes))));
  }
}

TEST(Memory, IsFreedAtOnceWhileStreamsAreIdle) {
  Host host(Execution::kSeeded);
  const auto stream = host.NewStream();
  int ran = 0;
  EXPECT_OK(stream->Launch([&ran] { ++ran; }));
  EXPECT_OK(stream->Synchronize());
  host.memory.Free(host.memory.Allocate(100).value());
  EXPECT_EQ(host.memory.deferred_count(), 0);
}

TEST(Memory, IsKeptUntilTheWorkOfEachStreamIsDone) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Host host(Execution::kSeeded, seed);
    const auto a = host.NewStream(), b = host.NewStream(1);
    int done_a = 0, done_b = 0;
    void* const data = host.memory.Allocate(100).value();
    for (int i = 0; i < 3; ++i) EXPECT_OK(a->Launch([&done_a] { ++done_a; }));
    EXPECT_OK(b->Launch([&done_b] { ++done_b; }));
    host.memory.Free(data);
    // What comes later is not waited for.
    for (int i = 0; i < 3; ++i) EXPECT_OK(a->Launch([] {}));
    while (true) {
      const bool all_done = done_a >= 3 && done_b >= 1;
      EXPECT_EQ(host.memory.deferred_count(), all_done ? 0 : 1) << "seed " << seed;
      if (!host.RunOne()) break;
    }
  }
}

TEST(Memory, IsReusedOnlyBehindTheWorkOnIt) {
  // Dropped at once, allocated again at once, and filled with something else by this thread.
  Host host(Execution::kSeeded);
  const auto stream = host.NewStream();
  constexpr size_t kBytes = 512;
  int right = 0;
  for (int i = 0; i < 100; ++i) {
    auto* const data = static_cast<unsigned char*>(host.memory.Allocate(kBytes).value());
    std::memset(data, i, kBytes);
    EXPECT_OK(stream->Launch([data, i, &right] {
      int same = 0;
      for (size_t k = 0; k < kBytes; ++k) same += data[k] == i;
      right += same == kBytes;
    }));
    host.memory.Free(data);
    if (i % 7 == 0) host.RunOne();
  }
  EXPECT_GT(host.memory.deferred_count(), 50);
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(right, 100);
  EXPECT_EQ(host.memory.deferred_count(), 0);
}

TEST(Memory, FollowsAnyNumberOfStreams) {
  // A seeded program; `uses` says on its own what each block waits for.
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Host host(Execution::kSeeded, seed);
    std::mt19937_64 random(seed);
    std::vector<std::unique_ptr<HostStream>> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(host.NewStream(i));
    std::vector<int> launched(3, 0), done(3, 0);
    std::vector<std::vector<int>> uses;  // of each block let go: what each stream had launched
    for (int step = 0; step < 200; ++step) {
      const size_t at = random() % 3;
      switch (random() % 4) {
        case 0:
          host.RunOne();
          break;
        case 1:
          host.memory.Free(host.memory.Allocate(64).value());
          uses.push_back(launched);
          break;
        default:
          ++launched[at];
          EXPECT_OK(streams[at]->Launch([&done, at] { ++done[at]; }));
      }
      const auto kept = std::count_if(uses.begin(), uses.end(), [&](const std::vector<int>& use) {
        return done[0] < use[0] || done[1] < use[1] || done[2] < use[2];
      });
      ASSERT_EQ(host.memory.deferred_count(), kept) << "seed " << seed << " step " << step;
    }
    for (const auto& stream : streams) EXPECT_OK(stream->Synchronize());
    EXPECT_EQ(host.memory.deferred_count(), 0);
  }
}

TEST(Memory, DoesNotWaitForStreamsThatAreGone) {
  Host host(Execution::kSeeded);
  auto stream = host.NewStream();
  EXPECT_OK(stream->Launch([] {}));
  host.memory.Free(host.memory.Allocate(64).value());
  EXPECT_EQ(host.memory.deferred_count(), 1);
  EXPECT_OK(stream->Synchronize());
  stream.reset();  // before anybody looked
  EXPECT_EQ(host.memory.deferred_count(), 0);
  const auto other = host.NewStream();
  host.memory.Free(host.memory.Allocate(64).value());
  EXPECT_EQ(host.memory.deferred_count(), 0);
}

TEST(Memory, WaitsForAWaitToo) {
  Host host(Execution::kInline);
  const auto gate = host.NewStream(), stream = host.NewStream();
  Held held(*gate);
  EXPECT_OK(stream->Wait(gate->Record()));
  host.memory.Free(host.memory.Allocate(64).value());
  host.RunReady();
  EXPECT_EQ(host.memory.deferred_count(), 1);
  held.Release();
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(host.memory.deferred_count(), 0);
}

TEST(Memory, FreesWithItselfWhatItKept) {
  // Nobody looks after the work is done; LeakSanitizer would find what is left.
  Host host(Execution::kSeeded);
  const auto stream = host.NewStream();
  EXPECT_OK(stream->Launch([] {}));
  host.memory.Free(host.memory.Allocate(64).value());
  EXPECT_OK(stream->Synchronize());
}

}  // namespace
}  // namespace mp::host
