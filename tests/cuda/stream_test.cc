// Marks of a CUDA stream, over the fake runtime: an event is done when its own mark is, however
// many there are and however often a cudaEvent_t has been used again; an open mark holds whoever
// waits for it; a waiting thread asks the stall watch.
#include "mp/cuda/stream.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/status.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

// Holds a stream until the count of tickets has come to it.
struct Gate {
  sync::Atomic<int>* tickets;
  int needed;

  void operator()() const {}
  absl::Status LaunchOn(const NativeStream& stream) const {
    const auto body = [](void* data) {
      const std::unique_ptr<Gate> gate(static_cast<Gate*>(data));
      while (gate->tickets->load() < gate->needed) sync::Yield();
    };
    return MP_CUDA(
        cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.handle), body, new Gate(*this)));
  }
};

class StreamTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    machine_ = std::make_unique<fake::Machine>(fake::Options{.devices = 2, .seed = GetParam()});
    a_ = *Stream::Create(0, sync::Clock::Steady());
    b_ = *Stream::Create(1, sync::Clock::Steady());
    c_ = *Stream::Create(1, sync::Clock::Steady());
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    c_.reset();
    EXPECT_EQ(machine_->Verdict(), "");
  }

  // Gives whatever could run the time to: each lap the machine chooses among all streams.
  void LetRun() {
    for (int i = 0; i < 30; ++i) EXPECT_EQ(c_->Synchronize(), absl::OkStatus());
  }

  std::unique_ptr<fake::Machine> machine_;
  std::unique_ptr<Stream> a_, b_, c_;
  sync::Atomic<int> tickets_{0};
};

TEST_P(StreamTest, AnEventIsDoneWithItsOwnMark) {
  constexpr int kMarks = 50;
  for (int lap = 0; lap < 3; ++lap) {
    tickets_ = 0;
    std::vector<Event> events;
    for (int i = 0; i < kMarks; ++i) {
      ASSERT_EQ(a_->Launch(Gate{&tickets_, i + 1}), absl::OkStatus());
      events.push_back(a_->Record());
    }
    for (int i = 0; i < kMarks; ++i) {
      EXPECT_FALSE(events[static_cast<size_t>(i)].Done());
      tickets_ = i + 1;
      EXPECT_EQ(events[static_cast<size_t>(i)].Synchronize(), absl::OkStatus());
      for (int k = 0; k < kMarks; ++k) EXPECT_EQ(events[static_cast<size_t>(k)].Done(), k <= i);
    }
  }
  const int64_t made = machine_->calls("cudaEventCreateWithFlags");
  EXPECT_LE(made, kMarks + 3 * 16) << "used again, and only once done";
}

TEST_P(StreamTest, MarksThatNobodyAsksAboutAreUsedAgain) {
  for (int i = 0; i < 1000; ++i) {
    a_->Record();
    const absl::Status status = i % 10 == 9 ? a_->Synchronize() : absl::OkStatus();
    EXPECT_EQ(status, absl::OkStatus());
  }
  EXPECT_EQ(machine_->calls("cudaEventCreateWithFlags"), 3 * 16);
}

// Calls a function on the stream.
struct Do {
  std::function<void()> body;

  void operator()() const {}
  absl::Status LaunchOn(const NativeStream& stream) const {
    const auto run = [](void* data) { std::unique_ptr<Do>(static_cast<Do*>(data))->body(); };
    return MP_CUDA(
        cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.handle), run, new Do(*this)));
  }
};

// Operations that nobody has marked can be seen to pass, sixteen at a time.
TEST_P(StreamTest, StandsStillWhileOperationsDoNotPass) {
  const auto operate = [&](int count) {
    for (int i = 0; i < count; ++i) a_->Close(a_->Open());
  };
  const auto after = [&](int seconds) { return a_->StandsStill(absl::Seconds(seconds)); };
  ASSERT_EQ(a_->Launch(Gate{&tickets_, 1}), absl::OkStatus());
  ASSERT_EQ(b_->Launch(Gate{&tickets_, 1}), absl::OkStatus());
  b_->Record();
  EXPECT_EQ(b_->StandsStill(absl::ZeroDuration()), std::nullopt) << "no operation";
  operate(16);
  ASSERT_EQ(a_->Launch(Gate{&tickets_, 2}), absl::OkStatus());
  operate(1);
  const Event end = a_->Record();
  EXPECT_EQ(after(10), absl::ZeroDuration());
  EXPECT_EQ(after(15), absl::Seconds(5));
  tickets_ = 1;
  while (after(20) != absl::ZeroDuration()) LetRun();
  LetRun();
  after(20);
  EXPECT_EQ(after(27), absl::Seconds(7));
  EXPECT_FALSE(end.Done());
  tickets_ = 2;
  EXPECT_EQ(end.Synchronize(), absl::OkStatus());
  EXPECT_EQ(after(30), std::nullopt);
}

TEST_P(StreamTest, WhoeverWaitsForAnAbandonedOneIsTold) {
  ASSERT_EQ(a_->Launch(Gate{&tickets_, 1}), absl::OkStatus());
  EXPECT_TRUE(absl::IsDeadlineExceeded(a_->Synchronize(absl::Milliseconds(1))));
  a_->Abandon({ErrorKind::kDeviceLost, "it stands"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(KindOf(a_->Synchronize()), ErrorKind::kDeviceLost);
    EXPECT_EQ(KindOf(a_->Record().Synchronize()), ErrorKind::kDeviceLost);
  }
  EXPECT_FALSE(a_->Record().Done());
  tickets_ = 1;
  const Event last = a_->Record();
  while (!last.Done()) LetRun();
  EXPECT_EQ(last.Synchronize(), absl::OkStatus()) << "what has passed needs no wait";
}

TEST_P(StreamTest, WorkWaitsForTheMarkAcrossDevices) {
  int done = 0;
  int seen = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(a_->Launch(Do{[&done] { ++done; }}), absl::OkStatus());
  }
  ASSERT_EQ(b_->Wait(a_->Record()), absl::OkStatus());
  ASSERT_EQ(b_->Launch(Do{[&] { seen = done; }}), absl::OkStatus());
  EXPECT_EQ(b_->Synchronize(), absl::OkStatus());
  EXPECT_EQ(seen, 10);
}

TEST_P(StreamTest, AnOpenMarkHoldsUntilItIsClosedAndRunsInItsPlace) {
  const uint64_t first = a_->Open();
  const Event event = a_->Record();
  EXPECT_EQ(event.position, first) << "nothing can stand behind an open mark";
  EXPECT_EQ(event.Synchronize(absl::Milliseconds(2)).code(), absl::StatusCode::kDeadlineExceeded);
  sync::Atomic<bool> waiting{false};
  sync::Thread waiter = *sync::Thread::Start("waiter", [&] {
    waiting = true;
    EXPECT_EQ(b_->Wait(event), absl::OkStatus());
    EXPECT_EQ(b_->Synchronize(), absl::OkStatus());
  });
  while (!waiting) sync::Yield();
  EXPECT_FALSE(event.Done());
  a_->Close(first);
  waiter.Join();
  EXPECT_TRUE(event.Done());
}

// As when the first is being issued while the second is dropped.
TEST_P(StreamTest, OpenMarksPassInOrderWhateverTheOrderOfClosing) {
  const uint64_t first = a_->Open();
  const Event first_event = a_->Record();
  const uint64_t second = a_->Open();
  const Event second_event = a_->Record();
  a_->Close(second);
  LetRun();
  EXPECT_FALSE(second_event.Done());
  EXPECT_FALSE(first_event.Done());
  a_->Close(first);
  EXPECT_EQ(second_event.Synchronize(), absl::OkStatus());
  EXPECT_TRUE(first_event.Done());
}

TEST_P(StreamTest, AMarkThatNobodyKnowsCostsNoEvent) {
  const int64_t before = machine_->calls("cudaEventRecord");
  for (int i = 0; i < 5; ++i) a_->Close(a_->Open());
  EXPECT_EQ(machine_->calls("cudaEventRecord"), before);
}

struct CountingWatch : StallWatch {
  sync::Atomic<int>* tickets = nullptr;
  int calls = 0;
  // The third call makes the stream move.
  absl::Duration OnStall(mp::Stream&, absl::Duration) override {
    if (++calls == 3) tickets->store(1);
    return absl::Milliseconds(2);
  }
};

TEST_P(StreamTest, AWaitingThreadAsksTheWatch) {
  CountingWatch watch;
  watch.tickets = &tickets_;
  a_->set_watch(&watch);
  ASSERT_EQ(a_->Launch(Gate{&tickets_, 1}), absl::OkStatus());
  EXPECT_EQ(a_->Synchronize(), absl::OkStatus());
  EXPECT_GE(watch.calls, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamTest, ::testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace mp::cuda
