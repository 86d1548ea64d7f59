// Shows what a host stream tells those that wait for it: the first error, once; a timeout, in time
// and with nothing lost; a stall, before each sleep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mp/host/stream.h"
#include "tests/host/by_hand.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- errors --------------------------------------------------------------------------------------

TEST(HostStream, TellsTheFirstErrorOnce) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto stream = host.NewStream();
    int ran = 0;
    EXPECT_OK(stream->Launch([] { return absl::OkStatus(); }));
    EXPECT_OK(stream->Launch([] { return UsageError("the first"); }));
    EXPECT_OK(stream->Launch([] { return Unsupported("the second"); }));
    EXPECT_OK(stream->Launch([&ran] { ++ran; }));
    EXPECT_OK(stream->Record().Synchronize()) << "an event tells no error";
    EXPECT_THAT(stream->Synchronize(), test::KindIs(ErrorKind::kUsageError, "the first"));
    EXPECT_EQ(ran, 1) << "work behind a failure runs";
    EXPECT_OK(stream->Synchronize());
    EXPECT_OK(stream->Launch([] { return Unsupported("the third"); }));
    EXPECT_THAT(stream->Synchronize(), test::KindIs(ErrorKind::kUnsupported, "the third"));
  }
}

TEST(HostStream, TellsWhatAKernelThrows) {
  for (const bool driven : {false, true}) {
    Host host(Execution::kInline);
    const auto stream = host.NewStream();
    if (driven) stream->set_driver(sync::ThisThread());
    EXPECT_OK(stream->Launch([] { throw std::runtime_error("boom"); }));
    EXPECT_THAT(stream->Synchronize(),
                test::KindIs(ErrorKind::kUserException, "a kernel on a stream threw: boom"));
    EXPECT_OK(stream->Launch([] { throw 42; }));
    EXPECT_THAT(stream->Synchronize(),
                test::KindIs(ErrorKind::kUserException, HasSubstr("no exception")));
    EXPECT_OK(stream->Launch([] { return absl::DataLossError("of the user's own"); }));
    EXPECT_THAT(stream->Synchronize(), test::KindIs(ErrorKind::kDeviceError, "of the user's own"));
    EXPECT_OK(stream->Synchronize());
  }
}

// A stream that is none of the host's.
class Foreign : public Stream {
  absl::Status DoLaunch(Kernel /*kernel*/) override { return absl::OkStatus(); }
  absl::Status DoCopy(const TensorView& /*source*/, const TensorView& /*target*/) override {
    return absl::OkStatus();
  }
  absl::Status DoScale(const TensorView& /*source*/, const TensorView& /*target*/,
                       double /*factor*/) override {
    return absl::OkStatus();
  }
  Event DoRecord() override { return {this, 1}; }
  absl::Status DoWait(const Event& /*event*/) override { return absl::OkStatus(); }
  bool DoQuery(uint64_t /*position*/) const override { return false; }
  bool DoHasPassed(uint64_t /*position*/) override { return false; }
  absl::StatusOr<bool> DoBlock(uint64_t /*position*/, absl::Duration /*timeout*/) override {
    return false;
  }
  absl::Status DoCheckRoom() const override { return absl::OkStatus(); }
  NativeStream DoNative() const override { return {}; }
};

TEST(HostStream, DoesNotWaitForAnotherBackend) {
  Host host(Execution::kInline);
  const auto stream = host.NewStream(3);
  Foreign foreign;
  EXPECT_THAT(stream->Wait(foreign.Record()), test::KindIs(ErrorKind::kInvalidArgument));
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(stream->native().handle, nullptr);
  EXPECT_EQ(stream->native().device, 3);
}

// --- timeouts ------------------------------------------------------------------------------------

TEST(HostStream, ATimeoutLosesNothing) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto gate = host.NewStream(), stream = host.NewStream();
    Held held(*gate);
    EXPECT_OK(stream->Launch([] { return UsageError("kept"); }));
    EXPECT_OK(stream->Wait(gate->Record()));
    const Event end = stream->Record();
    for (const absl::Duration timeout : {absl::Seconds(5), absl::Nanoseconds(1)}) {
      const absl::Duration start = host.clock.Now();
      const absl::Status status = stream->Synchronize(timeout);
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_EQ(KindOf(status), ErrorKind::kNone);
      EXPECT_EQ(host.clock.Now() - start, timeout);
      EXPECT_EQ(end.Synchronize(timeout).code(), absl::StatusCode::kDeadlineExceeded);
    }
    held.Release();
    EXPECT_OK(end.Synchronize());
    EXPECT_THAT(stream->Synchronize(absl::Nanoseconds(1)),
                test::KindIs(ErrorKind::kUsageError, "kept"));
  }
}

TEST(HostStream, ATimeoutOfZeroLooks) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto gate = host.NewStream(), stream = host.NewStream();
    Held held(*gate);
    EXPECT_OK(stream->Wait(gate->Record()));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(stream->Synchronize(absl::ZeroDuration()).code(),
                absl::StatusCode::kDeadlineExceeded);
    }
    held.Release();
    int ran = 0;
    for (int i = 0; i < 5; ++i) EXPECT_OK(stream->Launch([&ran] { ++ran; }));
    int looks = 1;
    while (!stream->Synchronize(absl::ZeroDuration()).ok()) ++looks;
    if (execution == Execution::kSeeded) {
      EXPECT_GE(looks, 5) << "one look is one step";
    }
    EXPECT_EQ(ran, 5);
    EXPECT_EQ(host.clock.Now(), absl::ZeroDuration());
  }
}

TEST(HostStream, ATimeoutIsNotNegative) {
  Host host(Execution::kInline);
  const auto stream = host.NewStream();
  for (const absl::Duration timeout : {absl::Nanoseconds(-1), -absl::InfiniteDuration()}) {
    EXPECT_THAT(stream->Synchronize(timeout),
                test::KindIs(ErrorKind::kInvalidArgument, HasSubstr("must not be negative")));
    EXPECT_THAT(stream->Record().Synchronize(timeout), test::KindIs(ErrorKind::kInvalidArgument));
  }
}

// Lets a stream go on at its third look.
class ThirdLook : public StallWatch {
 public:
  explicit ThirdLook(Held& held) : held_(held) {}
  absl::Duration OnStall(Stream& /*stream*/, absl::Duration waited) override {
    looks.push_back(waited);
    if (looks.size() == 3) held_.Release();
    return absl::Seconds(2);
  }
  std::vector<absl::Duration> looks;

 private:
  Held& held_;
};

TEST(HostStream, TheWatchIsAskedBeforeEachSleep) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    const auto gate = host.NewStream(), stream = host.NewStream();
    Held held(*gate);
    ThirdLook watch(held);
    stream->set_watch(&watch);
    EXPECT_OK(stream->Wait(gate->Record()));
    EXPECT_OK(stream->Synchronize());
    EXPECT_THAT(watch.looks, ElementsAre(absl::ZeroDuration(), absl::Seconds(2), absl::Seconds(4)));
  }
}

// --- sleepers ------------------------------------------------------------------------------------

// A clock on which the sleeping thread itself takes step by step until one has woken it, or until
// no step is left and the time is over.  `slept` has how many steps each sleep took.
class Steps : public sync::Clock {
 public:
  absl::Duration Now() override { return now_; }
  bool Wait(sync::Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) override {
    int count = 0;
    for (; word.load(sync::kSeqCst) == seen && !steps.empty(); ++count) {
      const std::function<void()> step = std::move(steps.front());
      steps.pop_front();
      step();
    }
    slept.push_back(count);
    if (word.load(sync::kSeqCst) != seen) return true;
    EXPECT_LT(timeout, absl::InfiniteDuration()) << "it sleeps for ever";
    now_ += timeout;
    return false;
  }
  std::deque<std::function<void()>> steps;
  std::vector<int> slept;

 private:
  absl::Duration now_ = absl::ZeroDuration();
};

// A stream with three pieces of work, each of which ends when its gate opens.
struct Gated {
  explicit Gated(Execution execution) : host(execution, 1, &clock), stream(host.NewStream()) {
    for (int i = 0; i < 3; ++i) {
      gates.push_back(host.NewStream());
      held.push_back(std::make_unique<Held>(*gates.back()));
      EXPECT_OK(stream->Wait(gates.back()->Record()));
      ends.push_back(stream->Record());
    }
  }
  // The next step opens the next gate.
  void Open(size_t gate) {
    clock.steps.push_back([this, gate] { held[gate]->Release(); });
  }

  Steps clock;
  Host host;
  std::unique_ptr<HostStream> stream;
  std::vector<std::unique_ptr<HostStream>> gates;
  std::vector<std::unique_ptr<Held>> held;
  std::vector<Event> ends;
};

constexpr Execution kAtOnce[] = {Execution::kInline, Execution::kPool};

TEST(HostStream, WhatEndsBeforeIsNoReasonToWake) {
  for (const Execution execution : kAtOnce) {
    Gated gated(execution);
    for (size_t i = 0; i < 3; ++i) gated.Open(i);
    EXPECT_OK(gated.ends[2].Synchronize());
    EXPECT_THAT(gated.clock.slept, ElementsAre(3));
  }
}

TEST(HostStream, EachSleeperIsWokenAtItsOwnPosition) {
  for (const Execution execution : kAtOnce) {
    Gated gated(execution);
    // Beside the sleep for the end there is one for the first piece, which ends before.
    gated.clock.steps.push_back([&gated] {
      EXPECT_OK(gated.ends[0].Synchronize());
      EXPECT_FALSE(gated.ends[1].Done());
    });
    for (size_t i = 0; i < 3; ++i) gated.Open(i);
    EXPECT_OK(gated.ends[2].Synchronize());
    // The other's wake-up is seen by both, who share a signal.
    EXPECT_THAT(gated.clock.slept, ElementsAre(1, 1, 2));
  }
}

TEST(HostStream, ASleepThatTimedOutLeavesNothing) {
  for (const Execution execution : kAtOnce) {
    Gated gated(execution);
    EXPECT_EQ(gated.ends[0].Synchronize(absl::Seconds(1)).code(),
              absl::StatusCode::kDeadlineExceeded);
    for (size_t i = 0; i < 3; ++i) gated.Open(i);
    EXPECT_OK(gated.ends[2].Synchronize());
    EXPECT_THAT(gated.clock.slept, ElementsAre(0, 3)) << "nobody waits for the first any more";
  }
}

// --- room ----------------------------------------------------------------------------------------

TEST(HostStream, RefusesMoreWorkThanItCanCount) {
  Host host(Execution::kInline);
  const auto stream = host.NewStream();
  Held held(*stream);
  absl::Status status;
  int accepted = 0, ran = 0;
  while (status.ok() && accepted < 2000000) {
    status = stream->Launch([&ran] { ++ran; });
    accepted += status.ok();
  }
  EXPECT_THAT(status, test::KindIs(ErrorKind::kDeviceError, HasSubstr("pieces of work")));
  EXPECT_FALSE(stream->Record().Done());
  held.Release();
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(ran, accepted) << "what was taken runs, and what was refused does not";
}

}  // namespace
}  // namespace mp::host
