// Shows that a host stream keeps its order: of its own work, of events, and of waits across
// streams. Programs of many streams check in each kernel that all it depends on has run, in plain
// memory, so that a missing order is a data race too.

#include "mp/host/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/host/by_hand.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

using ::testing::ElementsAre;

// --- order ---------------------------------------------------------------------------------------

TEST(HostStream, RunsWorkInOrder) {
  for (const Execution execution : {Execution::kInline, Execution::kSeeded, Execution::kPool}) {
    Host host(execution, 1, &sync::Clock::Steady());
    const auto stream = host.NewStream();
    std::vector<int> ran, expected;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_OK(stream->Launch([&ran, i] { ran.push_back(i); }));
      expected.push_back(i);
    }
    EXPECT_OK(stream->Synchronize());
    EXPECT_EQ(ran, expected);
  }
}

TEST(HostStream, RunsNothingBeforeSomebodyWaits) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto stream = host.NewStream();
    const Event before = stream->Record();
    int ran = 0;
    EXPECT_OK(stream->Launch([&ran] { ++ran; }));
    const Event after = stream->Record();
    EXPECT_EQ(ran, 0);
    EXPECT_TRUE(before.Done());
    EXPECT_FALSE(after.Done());
    EXPECT_OK(after.Synchronize());
    EXPECT_EQ(ran, 1);
    EXPECT_TRUE(after.Done());
  }
}

TEST(HostStream, AnEventIsDoneWithTheWorkBeforeIt) {
  Host host(Execution::kSeeded);
  const auto stream = host.NewStream();
  std::vector<Event> events = {stream->Record()};
  int ran = 0;
  const auto expect_events = [&] {
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].Done(), static_cast<int>(i) <= ran) << i;
    }
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(stream->Launch([&ran] { ++ran; }));
    events.push_back(stream->Record());
  }
  for (int i = 0; i <= 5; ++i) {
    EXPECT_EQ(ran, i);
    expect_events();
    EXPECT_EQ(host.RunOne(), i < 5);
  }
  EXPECT_TRUE(Event().Done());
  EXPECT_OK(Event().Synchronize());
}

TEST(HostStream, WorkOfTheDriverRunsAtOnceWhileItIsIdle) {
  Host host(Execution::kInline);
  const auto stream = host.NewStream();
  stream->set_driver(sync::ThisThread());
  std::vector<int> ran;
  const auto launch = [&](int i) { EXPECT_OK(stream->Launch([&ran, i] { ran.push_back(i); })); };
  launch(0);
  EXPECT_THAT(ran, ElementsAre(0));
  EXPECT_TRUE(stream->Record().Done());
  Held held(*stream);
  launch(1);
  launch(2);
  EXPECT_THAT(ran, ElementsAre(0)) << "work before it is not done";
  held.Release();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  launch(3);
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
  stream->set_driver(sync::ThisThread() + 1);
  launch(4);
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3)) << "another thread drives it";
  EXPECT_OK(stream->Synchronize());
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
}

// The Executor knows of drivers from the streams: it wakes nobody for the rest of a job while
// there is one for each core.
TEST(HostStream, ItsDriverCountsWhileItHasOne) {
  Host host(Execution::kInline);
  Executor& executor = *host.executor;
  class Pieces : public Job {
   public:
    void RunPiece(int64_t) override {}
    void Finish() override {}
  };
  const auto wakes = [&] {
    Pieces pieces;
    executor.Share(pieces, 2);
    AwakeWait awake(executor);
    sync::FakeClock clock;
    const uint32_t seen = executor.signal().Prepare();
    EXPECT_TRUE(executor.HelpOnce());
    const bool woken = executor.signal().Sleep(clock, seen, absl::Seconds(1));
    EXPECT_TRUE(executor.HelpOnce());
    return woken;
  };
  ASSERT_EQ(executor.lanes(), 3);
  const auto first = host.NewStream(), second = host.NewStream();
  auto other = host.NewStream();
  EXPECT_TRUE(wakes());
  first->set_driver(6);
  second->set_driver(7);
  EXPECT_TRUE(wakes()) << "two drivers for three cores";
  other->set_driver(8);
  EXPECT_FALSE(wakes());
  other->set_driver(9);
  EXPECT_FALSE(wakes()) << "another one in its place";
  other->set_driver(0);
  EXPECT_TRUE(wakes());
  other->set_driver(8);
  EXPECT_FALSE(wakes());
  other = nullptr;
  EXPECT_TRUE(wakes()) << "its stream is gone";
}

TEST(HostStream, ASeededRunWaitsEvenForTheDriver) {
  Host host(Execution::kSeeded);
  const auto stream = host.NewStream();
  stream->set_driver(sync::ThisThread());
  int ran = 0;
  EXPECT_OK(stream->Launch([&ran] { ++ran; }));
  EXPECT_EQ(ran, 0);
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(ran, 1);
}

TEST(HostStream, ComputeIsLeftToOthersWhereItMayNotRun) {
  Host host(Execution::kInline);
  const auto producer = host.NewStream(), consumer = host.NewStream();
  Held held(*producer);
  int ran = 0;
  EXPECT_OK(consumer->Wait(producer->Record()));
  const Event waited = consumer->Record();
  EXPECT_OK(consumer->Launch([&ran] { ++ran; }));
  host.RunReady();
  EXPECT_FALSE(waited.Done());
  held.Release(/*may_compute=*/false);
  EXPECT_TRUE(waited.Done());
  EXPECT_EQ(ran, 0);
  host.RunReady();
  EXPECT_EQ(ran, 1);
}

// Which kernels of three streams ran, in order: "abcabc...".
std::string OrderOf(uint64_t seed) {
  Host host(Execution::kSeeded, seed);
  const std::unique_ptr<HostStream> streams[] = {host.NewStream(), host.NewStream(),
                                                 host.NewStream()};
  std::string order;
  for (int i = 0; i < 8; ++i) {
    for (char name = 'a'; name <= 'c'; ++name) {
      EXPECT_OK(streams[name - 'a']->Launch([&order, name] { order += name; }));
    }
  }
  for (const auto& stream : streams) EXPECT_OK(stream->Synchronize());
  return order;
}

TEST(HostStream, TheSeedDecidesTheOrderOfStreams) {
  std::vector<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    orders.push_back(OrderOf(seed));
    EXPECT_EQ(orders.back().size(), 24u);
    EXPECT_EQ(OrderOf(seed), orders.back()) << "seed " << seed;
  }
  std::sort(orders.begin(), orders.end());
  EXPECT_EQ(std::unique(orders.begin(), orders.end()), orders.end()) << "two seeds, one order";
}

// --- across streams ------------------------------------------------------------------------------

// A seeded program on four streams.
class Program {
 public:
  Program(Host& host, uint64_t seed) : random_(seed), known_(4, Known(kKernels, 0)) {
    for (int i = 0; i < 4; ++i) streams_.push_back(host.NewStream());
  }
  void Run() {
    for (int i = 0; i < kKernels; ++i) {
      const size_t at = Below(4);
      Launch(at, i);
      if (Below(2) == 0) events_.push_back({streams_[at]->Record(), known_[at]});
      if (Below(2) == 0 && !events_.empty()) Wait(Below(4), events_[Below(events_.size())]);
      if (Below(16) == 0 && !events_.empty()) {
        const Mark& mark = events_[Below(events_.size())];
        EXPECT_OK(mark.event.Synchronize());
        EXPECT_TRUE(Holds(mark.known));
      }
    }
    for (const auto& stream : streams_) EXPECT_OK(stream->Synchronize());
    EXPECT_TRUE(Holds(Known(kKernels, 1)));
  }

 private:
  static constexpr int kKernels = 60;
  using Known = std::vector<char>;  // by kernel
  struct Mark {
    Event event;
    Known known;
  };

  size_t Below(size_t limit) { return random_() % limit; }
  bool Holds(const Known& known) const {
    for (size_t i = 0; i < kKernels; ++i) {
      if (known[i] != 0 && done_[i] == 0) return false;
    }
    return true;
  }
  void Launch(size_t at, int kernel) {
    EXPECT_OK(streams_[at]->Launch([this, kernel, known = known_[at]] {
      const bool holds = Holds(known);
      done_[static_cast<size_t>(kernel)] = 1;
      return holds ? absl::OkStatus() : absl::InternalError(absl::StrCat("early: ", kernel));
    }));
    known_[at][static_cast<size_t>(kernel)] = 1;
  }
  void Wait(size_t at, const Mark& mark) {
    EXPECT_OK(streams_[at]->Wait(mark.event));
    for (size_t i = 0; i < kKernels; ++i) known_[at][i] |= mark.known[i];
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<Known> known_;  // by stream: what its next kernel depends on
  std::vector<Mark> events_;
  Known done_ = Known(kKernels, 0);
};

TEST(HostStream, WaitsHoldInEveryProgram) {
  for (const Execution execution : {Execution::kInline, Execution::kSeeded, Execution::kPool}) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE(absl::StrCat("execution ", static_cast<int>(execution), " seed ", seed));
      Host host(execution, seed, &sync::Clock::Steady());
      Program(host, seed).Run();
    }
  }
}

TEST(HostStream, WhatThreadsQueueRunsOneByOneEachInItsOrder) {
  Host host(Execution::kPool, 1, &sync::Clock::Steady());
  const auto stream = host.NewStream();
  constexpr int kThreads = 4, kEach = 500;
  std::vector<int> ran;
  std::vector<sync::Thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(sync::Thread::Start("submits", [&stream, &ran, t] {
                        for (int i = 0; i < kEach; ++i) {
                          EXPECT_OK(stream->Launch([&ran, t, i] { ran.push_back(t * kEach + i); }));
                        }
                      }).value());
  }
  threads.clear();
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(ran.size(), static_cast<size_t>(kThreads * kEach));
  int next[kThreads] = {};
  for (const int i : ran) EXPECT_EQ(i % kEach, next[i / kEach]++);
}

TEST(HostStream, ALongChainOfWaitsNeedsNoDeepStack) {
  constexpr int kWaits = 100000;
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto gate = host.NewStream(), a = host.NewStream(), b = host.NewStream();
    Held held(*gate);
    int ran = 0;
    EXPECT_OK(a->Wait(gate->Record()));
    for (int i = 0; i < kWaits; ++i) {
      EXPECT_OK(b->Wait(a->Record()));
      EXPECT_OK(a->Wait(b->Record()));
    }
    EXPECT_OK(a->Launch([&ran] { ++ran; }));
    host.RunReady();
    EXPECT_EQ(ran, 0);
    held.Release();
    EXPECT_OK(a->Synchronize());
    EXPECT_EQ(ran, 1);
    EXPECT_OK(b->Synchronize());
  }
}

TEST(HostStream, ManyStreamsWaitInARow) {
  Host host(Execution::kInline);
  std::vector<std::unique_ptr<HostStream>> streams;
  for (int i = 0; i < 2000; ++i) streams.push_back(host.NewStream());
  Held held(*streams[0]);
  for (size_t i = 1; i < streams.size(); ++i) {
    EXPECT_OK(streams[i]->Wait(streams[i - 1]->Record()));
  }
  host.RunReady();
  EXPECT_FALSE(streams[1]->Record().Done());
  held.Release();
  for (const auto& stream : streams) EXPECT_TRUE(stream->Record().Done());
}

TEST(HostStream, MayWaitForItself) {
  Host host(Execution::kInline);
  const auto stream = host.NewStream();
  int ran = 0;
  EXPECT_OK(stream->Launch([&ran] { ++ran; }));
  EXPECT_OK(stream->Wait(stream->Record()));
  EXPECT_OK(stream->Launch([&ran] { ++ran; }));
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace mp::host
