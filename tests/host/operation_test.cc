// Shows that an operation on the host is a meeting, whatever the order of the calls: for two and
// three ranks every order of Enter, Arrive and Issue, and every Drop in between, on streams that
// are idle and that are not.  Each time the results are right and come only when all are there,
// work behind the places runs after them, and the operation is retired once.

#include "mp/host/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/host/by_hand.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

using ::testing::Each;

constexpr float kUntouched = -1, kNever = -2;  // outputs, and what kernels saw

class Retired : public Retirer {
 public:
  void Retire(Operation& /*operation*/) override { times.fetch_add(1, sync::kSeqCst); }
  sync::Atomic<int> times{0};
};

// What happens next to a peer, or to the operation.
struct Move {
  enum Kind { kEnter, kArrive, kIssue, kDrop } kind;
  int peer = 0;
};
using Moves = std::vector<Move>;

std::string Name(const Moves& moves) {
  constexpr const char* kKinds[] = {"enter ", "arrive ", "issue ", "drop "};
  std::string name;
  for (const Move& move : moves) absl::StrAppend(&name, kKinds[move.kind], move.peer, " ");
  return name;
}

// All orders in which the peers of `subset` enter and each arrives after it has entered; `last`
// comes after all have entered, and possibly before some arrive.
void AppendOrders(int peers, unsigned subset, Move::Kind last, Moves& so_far,
                  std::vector<Moves>& orders) {
  const auto has = [&so_far](Move::Kind kind, int peer) {
    for (const Move& move : so_far) {
      if (move.kind == kind && move.peer == peer) return true;
    }
    return false;
  };
  const auto go_on = [&](Move move) {
    so_far.push_back(move);
    AppendOrders(peers, subset, last, so_far, orders);
    so_far.pop_back();
  };
  bool all_entered = true, all_arrived = true;
  for (int peer = 0; peer < peers; ++peer) {
    if ((subset >> peer & 1) == 0) continue;
    const bool entered = has(Move::kEnter, peer), arrived = has(Move::kArrive, peer);
    all_entered &= entered;
    all_arrived &= arrived;
    if (!entered && !has(last, 0)) go_on({Move::kEnter, peer});
    if (entered && !arrived) go_on({Move::kArrive, peer});
  }
  if (all_entered && !has(last, 0)) go_on({last, 0});
  if (all_arrived && has(last, 0)) orders.push_back(so_far);
}

std::vector<Moves> Orders(int peers, unsigned subset, Move::Kind last) {
  Moves so_far;
  std::vector<Moves> orders;
  AppendOrders(peers, subset, last, so_far, orders);
  return orders;
}

// An AllReduce of small tensors by hand.
class Meeting {
 public:
  // Streams of `busy` have work before their place.
  Meeting(Host& host, int peers, unsigned busy)
      : host_(host), peers_(peers), busy_(busy), operation_(*host.executor, retired_, peers) {
    for (int peer = 0; peer < peers; ++peer) {
      streams_.push_back(host.NewStream());
      operation_.streams[static_cast<size_t>(peer)] = streams_.back().get();
    }
    arrives_.resize(streams_.size());
  }

  // Does the moves; `between` runs after each of them.
  template <typename Between>
  void Play(const Moves& moves, const Between& between) {
    Prepare();
    int missing = peers_ + 1;  // until the results may come
    bool dropped = false;
    for (const Move& move : moves) {
      Make(move);
      // A place in a stream's queue is come to whenever that runs.
      const bool arrives = arrives_[static_cast<size_t>(move.peer)] != 0;
      missing -= move.kind == Move::kIssue || move.kind == (arrives ? Move::kArrive : Move::kEnter);
      dropped |= move.kind == Move::kDrop;
      between();
      if (missing > 0) ExpectNothingDone(dropped);
    }
    host_.RunReady();
    ExpectEnd(moves, dropped);
  }

 private:
  struct Tensors {
    float input[3];
    float output[3];
    float seen;  // by the kernel behind the place
  };

  void Prepare() {
    ++round_;
    retired_.times = 0;
    operation_.steps = {{.shape = {3}}};
    operation_.parts.clear();
    tensors_.assign(streams_.size(), {});
    expected_ = 0;
    for (int peer = 0; peer < peers_; ++peer) {
      Tensors& mine = tensors_[static_cast<size_t>(peer)];
      const auto value = static_cast<float>((peer + 1) * round_);
      expected_ += value;
      mine = {{value, value, value}, {kUntouched, kUntouched, kUntouched}, kNever};
      operation_.parts.push_back({.input = mine.input, .output = mine.output});
    }
  }

  void Make(const Move& move) {
    const auto at = static_cast<size_t>(move.peer);
    switch (move.kind) {
      case Move::kEnter:
        if ((busy_ >> move.peer & 1) != 0) {
          EXPECT_OK(streams_[at]->Launch([] {}));
        }
        arrives_[at] = operation_.Enter(move.peer);
        EXPECT_OK(streams_[at]->Launch([mine = &tensors_[at]] { mine->seen = mine->output[0]; }));
        return;
      case Move::kArrive:
        if (arrives_[at]) operation_.Arrive(move.peer);
        return;
      case Move::kIssue:
        return operation_.Issue();
      case Move::kDrop:
        return operation_.Drop();
    }
  }

  void ExpectNothingDone(bool dropped) {
    ASSERT_EQ(dropped ? 0 : retired_.times.load(), 0);
    for (const Tensors& mine : tensors_) {
      ASSERT_THAT(mine.output, Each(kUntouched));
      ASSERT_TRUE(mine.seen == kNever || dropped) << mine.seen;
    }
  }

  void ExpectEnd(const Moves& moves, bool dropped) {
    ASSERT_EQ(retired_.times.load(), 1);
    const float result = dropped ? kUntouched : expected_;
    for (const Move& move : moves) {
      if (move.kind == Move::kEnter) {
        ASSERT_EQ(tensors_[static_cast<size_t>(move.peer)].seen, result) << move.peer;
      }
    }
    for (const Tensors& mine : tensors_) ASSERT_THAT(mine.output, Each(result));
    for (const auto& stream : streams_) {
      ASSERT_TRUE(stream->Record().Done());
      ASSERT_OK(stream->Synchronize());
    }
  }

  Host& host_;
  const int peers_;
  const unsigned busy_;
  int round_ = 0;
  Retired retired_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  HostOperation operation_;
  std::vector<Tensors> tensors_;
  std::vector<char> arrives_;
  float expected_ = 0;
};

// Plays the rounds one after the other with one operation, in all ways of running what is ready
// between the moves.
void PlayAll(int peers, const std::vector<Moves>& rounds) {
  for (unsigned busy = 0; busy < (1u << peers); ++busy) {
    SCOPED_TRACE(absl::StrCat(Name(rounds.back()), "busy ", busy));
    for (const bool at_once : {false, true}) {
      Host host(Execution::kInline);
      Meeting meeting(host, peers, busy);
      for (const Moves& moves : rounds) {
        meeting.Play(moves, [&] { at_once ? host.RunReady() : void(); });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Host host(Execution::kSeeded, seed);
      std::mt19937_64 random(seed);
      Meeting meeting(host, peers, busy);
      for (const Moves& moves : rounds) {
        meeting.Play(moves, [&] {
          for (uint64_t i = random() % 4; i > 0; --i) host.RunOne();
        });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(HostOperation, EndsOnceInEveryOrder) {
  for (const int peers : {1, 2, 3}) {
    const std::vector<Moves> orders = Orders(peers, (1u << peers) - 1, Move::kIssue);
    EXPECT_EQ(orders.size(), peers == 1 ? 2u : peers == 2 ? 16u : 288u);
    for (const Moves& moves : orders) {
      PlayAll(peers, {moves, moves});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(HostOperation, ADropLetsWhoEnteredGoOn) {
  for (const int peers : {2, 3}) {
    const Moves all = Orders(peers, (1u << peers) - 1, Move::kIssue)[0];
    for (unsigned entered = 0; entered < (1u << peers); ++entered) {
      for (const Moves& moves : Orders(peers, entered, Move::kDrop)) {
        PlayAll(peers, {all, moves});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// --- more than one small step --------------------------------------------------------------------

struct Pair {
  explicit Pair(Host& host) : operation(*host.executor, retired, 2) {
    for (int peer = 0; peer < 2; ++peer) {
      streams[peer] = host.NewStream();
      operation.streams[static_cast<size_t>(peer)] = streams[peer].get();
    }
  }
  void EnterAndArrive() {
    for (const int peer : {0, 1}) {
      if (operation.Enter(peer)) operation.Arrive(peer);
    }
  }
  std::unique_ptr<HostStream> streams[2];
  Retired retired;
  HostOperation operation;
};

Descriptor Reduction(int64_t count) { return {.shape = {count}}; }

TEST(HostOperation, WhoIssuesItRunsNothing) {
  // He holds a lock, so that the work is left to others.
  for (const Execution execution : kAlone) {
    Host host(execution);
    Pair pair(host);
    float x[2] = {1, 2};
    pair.operation.steps = {Reduction(1)};
    pair.operation.parts = {{.input = &x[0], .output = &x[0]}, {.input = &x[1], .output = &x[1]}};
    pair.EnterAndArrive();
    host.RunReady();
    pair.operation.Issue();
    EXPECT_THAT(x, ::testing::ElementsAre(1, 2));
    EXPECT_EQ(pair.retired.times.load(), 0);
    host.RunReady();
    EXPECT_THAT(x, Each(3));
    EXPECT_EQ(pair.retired.times.load(), 1);
  }
}

TEST(HostOperation, LargeOnesAreSharedOut) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    Pair pair(host);
    constexpr int64_t kCount = 300001;
    std::vector<float> one(kCount), other(kCount), sum(kCount);
    for (size_t i = 0; i < one.size(); ++i) {
      one[i] = static_cast<float>(i), other[i] = static_cast<float>(2 * i + 1);
      sum[i] = one[i] + other[i];
    }
    pair.operation.steps = {Reduction(kCount)};
    pair.operation.parts = {{.input = one.data(), .output = one.data()},
                            {.input = other.data(), .output = other.data()}};
    pair.operation.Issue();
    pair.EnterAndArrive();
    int helped = 0;
    while (pair.retired.times == 0 && host.RunOne()) ++helped;
    EXPECT_GT(helped, 10) << "4.8 MB are more than ten pieces";
    EXPECT_EQ(one, sum);
    EXPECT_EQ(other, sum);
    host.RunReady();
    for (const auto& stream : pair.streams) EXPECT_TRUE(stream->Record().Done());
  }
}

TEST(HostOperation, ABatchDoesAllItsSteps) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    Pair pair(host);
    float x[2][3] = {{1, 2, 3}, {10, 20, 30}}, shards[2] = {7, 8}, full[2] = {};
    Descriptor gather = Reduction(0);
    gather.kind = OpKind::kGather;
    gather.root = 1;
    gather.dim = 0;
    pair.operation.steps = {Reduction(3), {.kind = OpKind::kAcquireSlot}, gather};
    pair.operation.parts = {
        {.input = x[0], .output = x[0]},   {.input = x[1], .output = x[1]}, {}, {},
        {&shards[0], 4, nullptr, 0, 1, 0}, {&shards[1], 4, full, 8, 1, 2}};
    pair.operation.Issue();
    pair.EnterAndArrive();
    host.RunReady();
    for (const auto& mine : x) EXPECT_THAT(mine, ::testing::ElementsAre(11, 22, 33));
    EXPECT_THAT(full, ::testing::ElementsAre(7, 8));
    EXPECT_EQ(pair.retired.times.load(), 1);
  }
}

TEST(HostOperation, WithoutDataIsAMeetingStill) {
  for (const Execution execution : kAlone) {
    Host host(execution);
    Pair pair(host);
    Held held(*pair.streams[1]);
    pair.operation.steps = {{.kind = OpKind::kAcquireSlot}};
    pair.operation.parts.resize(2);
    pair.operation.Issue();
    pair.EnterAndArrive();
    host.RunReady();
    EXPECT_FALSE(pair.streams[0]->Record().Done());
    held.Release();
    host.RunReady();
    EXPECT_TRUE(pair.streams[0]->Record().Done());
    EXPECT_EQ(pair.retired.times.load(), 1);
  }
}

// A rank's thread: posts, as the scheduler does, and waits.
void MeetInEach(std::deque<HostOperation>& operations, int rank, int& x, HostStream& stream,
                sync::Mutex& order, std::vector<int>& entered) {
  for (size_t round = 0; round < operations.size(); ++round) {
    HostOperation& operation = operations[round];
    x = static_cast<int>(round) + rank;
    order.Lock();
    const bool arrives = operation.Enter(rank);
    if (++entered[round] == operation.world_size) operation.Issue();
    order.Unlock();
    if (arrives) operation.Arrive(rank);
    EXPECT_OK(stream.Synchronize());
    EXPECT_EQ(x, 4 * static_cast<int>(round) + 0 + 1 + 2 + 3);
  }
}

TEST(HostOperation, RanksOfTheirOwnThreadsMeetAgainAndAgain) {
  constexpr int kRanks = 4, kRounds = 200;
  Host host(Execution::kPool, 1, &sync::Clock::Steady());
  Retired retired;
  std::deque<HostOperation> operations;
  std::vector<std::unique_ptr<HostStream>> streams;
  int x[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) streams.push_back(host.NewStream());
  for (int round = 0; round < kRounds; ++round) {
    HostOperation& operation = operations.emplace_back(*host.executor, retired, kRanks);
    operation.steps = {Reduction(1)};
    operation.steps[0].dtype = DType::kI32;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      operation.parts.push_back({.input = &x[rank], .output = &x[rank]});
      operation.streams[rank] = streams[rank].get();
    }
  }
  sync::Mutex order;
  std::vector<int> entered(kRounds, 0);
  {
    sync::Thread threads[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      threads[rank] = sync::Thread::Start("rank", [&, rank] {
                        MeetInEach(operations, rank, x[rank], *streams[static_cast<size_t>(rank)],
                                   order, entered);
                      }).value();
    }
  }
  while (retired.times.load() < kRounds) sync::Yield();  // the last strands go on a moment earlier
  EXPECT_EQ(retired.times.load(), kRounds);
}

}  // namespace
}  // namespace mp::host
