#include "tests/explore/scenarios.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mp::explore {
namespace {

size_t At(int i) { return static_cast<size_t>(i); }

// The scenarios that end well have no deadline: a rank that nobody wakes is a deadlock of the run.
Setup Endless(Setup setup) {
  setup.world.rank_threads = false;
  setup.world.absence_timeout = absl::InfiniteDuration();
  setup.world.absence_warning = absl::InfiniteDuration();
  return setup;
}

// Every kind of operation, one behind the other on the compute streams.
void Collectives(const Setup& setup) {
  Ranks ranks(Endless(setup));
  const auto sum = NewAllReduce(setup.ranks, 3, 1, true);
  const auto gather = NewGather(setup.ranks, setup.ranks - 1, 2);
  const auto all = NewAllGather(setup.ranks, 3);
  const auto apart = NewAllReduce(setup.ranks, 5, 4, false);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    for (Call* call : {sum.get(), gather.get(), all.get(), apart.get()}) {
      MP_RETURN_IF_ERROR(call->Post(rank.region()));
    }
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  for (Call* call : {sum.get(), gather.get(), all.get(), apart.get()}) call->ExpectDone();
  ranks.ExpectNoTimeHasPassed();
}

// Compute of the user before and behind an operation, in turns.
void Compute(const Setup& setup) {
  Ranks ranks(Endless(setup));
  std::vector<float> x(At(setup.ranks), 0);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    float& mine = x[At(rank.id())];
    const TensorView view(&mine, DType::kF32, {1});
    MP_RETURN_IF_ERROR(rank.stream().Launch(
        Kernel([&mine, id = rank.id()] { mine = static_cast<float>(id + 1); })));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(view));
    MP_RETURN_IF_ERROR(rank.stream().Launch(
        Kernel([&mine, id = rank.id()] { mine = mine * 2 + static_cast<float>(id); })));
    MP_RETURN_IF_ERROR(rank.region().AllReduce(view));
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  const int n = setup.ranks;
  const int first = n * (n + 1) / 2;
  for (const float value : x) {
    Expect(value == static_cast<float>(2 * first * n + n * (n - 1) / 2),
           absl::StrCat("compute and sums in another order: ", value));
  }
  ranks.ExpectNoTimeHasPassed();
}

// An operation on the comm streams beside one on the compute streams; the last waits for both.
void Overlap(const Setup& setup) {
  Ranks ranks(Endless(setup));
  const auto beside = NewAllReduce(setup.ranks, 3, 1, true);
  const auto all = NewAllGather(setup.ranks, 2);
  const auto waited = NewAllReduce(setup.ranks, 2, 3, true);
  std::vector<int> seen(At(setup.ranks), 0);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(const Work work, beside->Start(rank.region()));
    MP_RETURN_IF_ERROR(all->Post(rank.region()));
    MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
    MP_RETURN_IF_ERROR(
        rank.stream().Launch(Kernel([&, id = rank.id()] { seen[At(id)] = work.Done() ? 1 : -1; })));
    MP_ASSIGN_OR_RETURN(const Work last, waited->Start(rank.region()));
    MP_RETURN_IF_ERROR(last.Synchronize());
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  for (Call* call : {beside.get(), all.get(), waited.get()}) call->ExpectDone();
  for (const int one : seen) Expect(one == 1, "a stream did not wait for the work");
  ranks.ExpectNoTimeHasPassed();
}

// Calls that return only when all ranks have agreed.
void Lead(const Setup& setup) {
  Setup close = Endless(setup);
  close.world.max_lead = 1;
  Ranks ranks(close);
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(first->Post(rank.region()));
    MP_RETURN_IF_ERROR(second->Post(rank.region()));
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  first->ExpectDone();
  second->ExpectDone();
  ranks.ExpectNoTimeHasPassed();
}

// One thread calls for all ranks while others wait for what it has queued.
void OneCall(const Setup& setup) {
  Ranks ranks(Endless(setup));
  Region& region = ranks.world().region();
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  absl::Status called;
  Gate gate(2);
  {
    sync::Thread other = sync::Thread::Start("waits", [&] {
                           gate.Pass();
                           const absl::Status status = ranks.world().Synchronize();
                           Expect(status.ok(), status.ToString());
                         }).value();
    gate.Pass();
    called = first->PostAll(region);
    if (called.ok()) called = second->PostAll(region);
    if (called.ok()) called = ranks.world().Synchronize();
  }
  Expect(called.ok(), called.ToString());
  first->ExpectDone();
  second->ExpectDone();
  ranks.ExpectNoTimeHasPassed();
}

// A rank brings another shape: all are told, and nothing is touched.
void Mismatch(const Setup& setup) {
  Ranks ranks(Endless(setup));
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto three = NewAllReduce(setup.ranks, 3, 2, true);
  const auto five = NewAllReduce(setup.ranks, 5, 3, true);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(first->Post(rank.region()));
    const absl::Status told = (rank.id() == 1 ? five : three)->Post(rank.region());
    const absl::Status waited = rank.stream().Synchronize();
    return told.ok() ? waited : told;
  });
  ranks.ExpectAll(ErrorKind::kMismatch);
  first->ExpectDone();
  three->ExpectUntouched();
  five->ExpectUntouched();
  ranks.ExpectNoTimeHasPassed();
}

// A rank returns where its peers call once more: they are told at once, without a deadline.  Who
// comes late finds the Region failed.
void EarlyReturn(const Setup& setup) {
  Setup own = Endless(setup);
  own.world.rank_threads = true;
  Ranks ranks(own);
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  std::vector<absl::Status> told(At(setup.ranks));
  OpenWindow();
  const absl::Status status = ranks.world().Run([&](Rank& rank) -> absl::Status {
    absl::Status& mine = told[At(rank.id())];
    mine = first->Post(rank.region());
    if (rank.id() == 0) return mine;
    if (mine.ok()) mine = second->Post(rank.region());
    if (mine.ok()) mine = rank.stream().Synchronize();
    return mine;
  });
  Expect(KindOf(status) == ErrorKind::kAbsentShard, absl::StrCat("Run: ", status.ToString()));
  for (int id = 1; id < setup.ranks; ++id) {
    Expect(KindOf(told[At(id)]) == ErrorKind::kAbsentShard, told[At(id)].ToString());
  }
  first->ExpectDoneOrUntouched();
  second->ExpectUntouched();
  ranks.ExpectNoTimeHasPassed();
}

// Every rank waits in a Region of its own with the next rank, which waits in another: a ring.
void Deadlock(const Setup& setup) {
  Ranks ranks(Endless(setup));
  std::vector<Region> regions;
  for (int id = 0; id < setup.ranks; ++id) {
    regions.push_back(ranks.world().NewRegion({id, (id + 1) % setup.ranks}).value());
  }
  ranks.Drive([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, regions[At(rank.id())].ForRank(rank));
    MP_RETURN_IF_ERROR(mine.AcquireSlot());
    return rank.stream().Synchronize();
  });
  ranks.ExpectAll(ErrorKind::kAbsentShard);
  for (const absl::Status& status : ranks.statuses()) {
    Expect(absl::StrContains(status.message(), "deadlock"), status.ToString());
  }
  ranks.ExpectNoTimeHasPassed();
}

// A rank that does not come: its peers fail at the deadline, in virtual time.
void Absence(const Setup& setup) {
  Setup timed = Endless(setup);
  timed.world.absence_timeout = absl::Seconds(10);
  Ranks ranks(timed);
  const absl::Duration begin = sync::Clock::Steady().Now();
  const auto call = NewAllReduce(setup.ranks, 3, 1, true);
  sync::Atomic<int> told{1};
  ranks.Drive([&](Rank& rank) -> absl::Status {
    if (rank.id() == 0) {  // there, and does something else until all others know
      sync::Atomic<uint32_t> word{0};
      while (told.load(sync::kAcquire) < setup.ranks) {
        sync::Clock::Steady().Wait(word, 0, absl::Seconds(1));
      }
      return call->Post(rank.region());
    }
    absl::Status status = call->Post(rank.region());
    if (status.ok()) status = rank.stream().Synchronize();
    const absl::Duration passed = sync::Clock::Steady().Now() - begin;
    Expect(passed >= absl::Seconds(10) && passed <= absl::Seconds(12),
           absl::StrCat("told after ", absl::FormatDuration(passed)));
    told.fetch_add(1, sync::kAcqRel);
    return status;
  });
  ranks.ExpectAll(ErrorKind::kAbsentShard);
  call->ExpectUntouched();
}

// Another thread ends the Region, or the World, at any moment.  What is agreed runs; the rest has
// no effect; all are told the same.
void Ended(const Setup& setup, ErrorKind kind, const std::function<void(World&)>& end) {
  Ranks ranks(Endless(setup));
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  ranks.Drive(
      [&](Rank& rank) -> absl::Status {
        absl::Status status = first->Post(rank.region());
        if (status.ok()) status = second->Post(rank.region());
        const absl::Status waited = rank.stream().Synchronize();
        return status.ok() ? waited : status;
      },
      {[&] { end(ranks.world()); }});
  bool all_ok = true;
  for (const absl::Status& status : ranks.statuses()) {
    all_ok = all_ok && status.ok();
    Expect(status.ok() || KindOf(status) == kind, status.ToString());
  }
  if (all_ok) {
    first->ExpectDone();
    second->ExpectDone();
  } else {
    first->ExpectDoneOrUntouched();
    second->ExpectDoneOrUntouched();
  }
}

void Cancelled(const Setup& setup) {
  Ended(setup, ErrorKind::kCancelled, [](World& world) { world.region().Cancel("enough"); });
}

// The ranks but one wait in their calls for the one that does not come.
void LeadCancelled(const Setup& setup) {
  Setup close = Endless(setup);
  close.world.max_lead = 1;
  Ranks ranks(close);
  const auto call = NewAllReduce(setup.ranks, 3, 1, true);
  sync::Atomic<bool> cancelled{false};
  ranks.Drive(
      [&](Rank& rank) -> absl::Status {
        if (rank.id() > 0) return call->Post(rank.region());
        while (!cancelled.load(sync::kAcquire)) sync::Yield();
        return rank.region().AcquireSlot();
      },
      {[&] {
        ranks.world().region().Cancel("enough");
        cancelled.store(true, sync::kRelease);
      }});
  ranks.ExpectAll(ErrorKind::kCancelled);
  call->ExpectUntouched();
  ranks.ExpectNoTimeHasPassed();
}

void RegionClosed(const Setup& setup) {
  Ended(setup, ErrorKind::kClosed, [](World& world) { world.region().Close(); });
}

void WorldClosed(const Setup& setup) {
  Ended(setup, ErrorKind::kClosed, [](World& world) {
    const absl::Status status = world.Close();
    Expect(status.ok(), status.ToString());
  });
}

// Two Runs on the World's own threads, and its end.
void Runs(const Setup& setup) {
  Setup own = Endless(setup);
  own.world.rank_threads = true;
  Ranks ranks(own);
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewGather(setup.ranks, 0, 2);
  OpenWindow();
  for (Call* call : {first.get(), second.get()}) {
    const absl::Status status =
        ranks.world().Run([&](Rank& rank) { return call->Post(rank.region()); });
    Expect(status.ok(), status.ToString());
    call->ExpectDone();
  }
  ranks.ExpectNoTimeHasPassed();
}

// A graph of compute and an operation, launched twice.
void Graphs(const Setup& setup) {
  Ranks ranks(Endless(setup));
  std::vector<float> x(At(setup.ranks), 1);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    float& mine = x[At(rank.id())];
    {
      MP_ASSIGN_OR_RETURN(const Graph graph,
                          rank.region().Capture([&](RankRegion& region) -> absl::Status {
                            MP_RETURN_IF_ERROR(region.stream().Launch(Kernel([&mine] { ++mine; })));
                            return region.AllReduce(TensorView(&mine, DType::kF32, {1}));
                          }));
      MP_RETURN_IF_ERROR(graph.Launch());
      MP_RETURN_IF_ERROR(graph.Launch());
    }
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  const int n = setup.ranks;
  for (const float value : x) {
    Expect(value == static_cast<float>((2 * n + 1) * n), absl::StrCat("launched twice: ", value));
  }
  ranks.ExpectNoTimeHasPassed();
}

// Another thread asks what the ranks have posted: times that it is given are in their order.
void Recent(const Setup& setup) {
  Ranks ranks(Endless(setup));
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  const auto ask = [&] {
    for (const RecentOperation& one : ranks.world().Recent()) {
      const absl::Duration unknown;
      Expect(one.agreed == unknown || one.agreed >= one.posted, "agreed before it was posted");
      Expect(one.issued == unknown || one.issued >= one.agreed, "issued before it was agreed");
      Expect(one.completed == unknown || one.completed >= one.issued, "done before it was issued");
    }
  };
  ranks.Drive(
      [&](Rank& rank) -> absl::Status {
        MP_RETURN_IF_ERROR(first->Post(rank.region()));
        MP_RETURN_IF_ERROR(second->Post(rank.region()));
        return rank.stream().Synchronize();
      },
      {[&] {
        for (int i = 0; i < 3; ++i) ask();
      }});
  ranks.ExpectAllOk();
  ask();
  first->ExpectDone();
  second->ExpectDone();
}

// Each rank makes a Region of its own axis beside the World's and uses both.
void Regions(const Setup& setup) {
  Ranks ranks(Endless(setup));
  const auto first = NewAllReduce(setup.ranks, 3, 1, true);
  const auto second = NewAllGather(setup.ranks, 2);
  ranks.Drive([&](Rank& rank) -> absl::Status {
    std::vector<int> all;
    for (int id = 0; id < setup.ranks; ++id) all.push_back(id);
    MP_ASSIGN_OR_RETURN(RankRegion region, rank.NewRegion(all, {.name = "made"}));
    MP_RETURN_IF_ERROR(first->Post(region));
    MP_RETURN_IF_ERROR(second->Post(rank.region()));
    return rank.stream().Synchronize();
  });
  ranks.ExpectAllOk();
  first->ExpectDone();
  second->ExpectDone();
  ranks.ExpectNoTimeHasPassed();
}

}  // namespace

const std::vector<Scenario>& Scenarios() {
  static const auto* const scenarios = new std::vector<Scenario>{
      {"Collectives", Collectives},
      {"Compute", Compute},
      {"Overlap", Overlap},
      {"Lead", Lead},
      {"OneCall", OneCall},
      {"Mismatch", Mismatch},
      {"EarlyReturn", EarlyReturn},
      {"Deadlock", Deadlock},
      {"Absence", Absence},
      {"Cancelled", Cancelled},
      {"LeadCancelled", LeadCancelled},
      {"RegionClosed", RegionClosed},
      {"WorldClosed", WorldClosed},
      {"Runs", Runs},
      {"Graphs", Graphs},
      {"Regions", Regions},
      {"Recent", Recent},
  };
  return *scenarios;
}

}  // namespace mp::explore
