#include "tests/random/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/random/predict.h"

namespace mp::test {
namespace {

// How long peers wait for a rank that stays away.
constexpr absl::Duration kPatience = absl::Milliseconds(20);

// What the Region is told where this goes wrong.
ErrorKind KindOfRegion(Wrong wrong) {
  switch (wrong) {
    case Wrong::kMismatch:
    case Wrong::kAcquires:
      return ErrorKind::kMismatch;
    case Wrong::kCancels:
      return ErrorKind::kCancelled;
    case Wrong::kCloses:
      return ErrorKind::kClosed;
    default:
      return ErrorKind::kAbsentShard;
  }
}

// And World::Run.
ErrorKind KindOfRun(Wrong wrong) {
  switch (wrong) {
    case Wrong::kFails:
      return ErrorKind::kNone;
    case Wrong::kThrows:
      return ErrorKind::kUserException;
    default:
      return KindOfRegion(wrong);
  }
}

}  // namespace

// One program under way.
struct Session::Running {
  std::vector<Buffer> memory;
  std::vector<uint8_t*> arenas;
  std::vector<Region> regions;
  std::vector<std::unique_ptr<RankRun>> ranks;
  std::vector<absl::Status> told;
  absl::Status run;
  std::vector<std::string> failures;

  template <typename... Parts>
  void Fail(const Parts&... parts) {
    failures.push_back(absl::StrCat(parts...));
  }
};

Session::Session(const Target& target, const SessionOptions& options)
    : target_(target), options_(options), ground_(target.new_ground(options.seed)) {
  WorldOptions world{.rank_threads = !options.stepped,
                     .max_lead = options.max_lead,
                     .close_timeout = absl::Minutes(1)};
  world_ = World::Create(ground_->NewBackend(options.ranks).value(), world).value();
}

std::vector<std::string> Session::Run(const Program& program, int rounds) {
  Running running;
  Load(program, running);
  if (options_.stepped) {
    RunStepped(rounds, running);
  } else {
    RunOnThreads(program, rounds, running);
  }
  program.wrong == Wrong::kNothing ? CheckRight(program, running) : CheckWrong(program, running);
  running.ranks.clear();
  return std::move(running.failures);
}

std::string Session::End() {
  const absl::Status closed = world_->Close();
  world_.reset();
  const std::string left = ground_->Verdict();
  ground_.reset();
  return closed.ok() ? left : absl::StrCat("Close: ", closed.ToString(), " ", left);
}

void Session::Load(const Program& program, Running& running) {
  const Bytes poison = Poison(program.arena_bytes);
  for (int id = 0; id < program.ranks; ++id) {
    running.memory.push_back(
        world_->device(id).Allocate(DType::kU8, {program.arena_bytes}).value());
    running.arenas.push_back(static_cast<uint8_t*>(running.memory.back().data()));
    target_.copy(running.arenas.back(), poison.data(), poison.size());
  }
  int number = 0;
  for (const std::vector<int>& group : program.groups) {
    RegionOptions options{.name = absl::StrCat("group ", number++)};
    if (program.wrong == Wrong::kStaysAway) options.absence_timeout = kPatience;
    running.regions.push_back(world_->NewRegion(group, options).value());
  }
  for (int id = 0; id < program.ranks; ++id) {
    running.ranks.push_back(
        std::make_unique<RankRun>(target_, program, running.arenas, running.regions, id));
  }
  running.told.resize(At(program.ranks));
}

void Session::RunOnThreads(const Program& program, int rounds, Running& running) {
  OddOne odd_one;
  running.run = world_->Run([&](Rank& rank) -> absl::Status {
    absl::Status& told = running.told[At(rank.id())];
    told = running.ranks[At(rank.id())]->Go(rank, rounds, odd_one);
    if (!told.ok()) odd_one.Tell();
    return told;
  });
  // Who returned early may have left work behind; its errors have been told.
  if (program.wrong == Wrong::kNothing) return;
  for (int id = 0; id < program.ranks; ++id) {
    static_cast<void>(world_->stream(id).Synchronize(absl::Minutes(1)));
  }
}

void Session::RunStepped(int rounds, Running& running) {
  Random random(options_.seed);
  std::vector<Attachment> attached;
  for (size_t id = 0; id < running.ranks.size(); ++id) {
    attached.push_back(world_->Attach(static_cast<int>(id)).value());
    running.told[id].Update(running.ranks[id]->Begin(*attached[id]));
  }
  std::vector<int> done(running.ranks.size(), 0);  // steps, of all rounds
  std::vector<int> busy = random.Permutation(static_cast<int>(running.ranks.size()));
  while (!busy.empty()) {
    const int id = random.Pick(busy);
    RankRun& rank = *running.ranks[At(id)];
    absl::Status& told = running.told[At(id)];
    const int step = done[At(id)]++ % rank.steps();
    if (step == 0) told.Update(rank.BeginRound());
    told.Update(rank.Take(step));
    if (done[At(id)] == rounds * rank.steps()) std::erase(busy, id);
    // A look from time to time lets some of the work run early.
    if (!random.OneIn(rounds < 20 ? 4 : 50)) continue;
    const absl::Status looked = attached[At(id)]->stream().Synchronize(absl::ZeroDuration());
    if (KindOf(looked) != ErrorKind::kNone) told.Update(looked);
  }
  for (size_t id = 0; id < running.ranks.size(); ++id) {
    running.told[id].Update(attached[id]->stream().Synchronize());
    running.run.Update(running.told[id]);
  }
}

// --- programs that are right ---------------------------------------------------------------------

void Session::CheckRight(const Program& program, Running& running) {
  if (!running.run.ok()) running.Fail("the run: ", running.run.ToString());
  for (const auto& rank : running.ranks) {
    if (!rank->difference().empty()) running.Fail(rank->difference());
  }
  for (const Region& region : running.regions) {
    if (!region.status().ok()) running.Fail("a Region: ", region.status().ToString());
  }
  if (!running.failures.empty()) return;
  Bytes arena(static_cast<size_t>(program.arena_bytes));
  for (size_t id = 0; id < running.arenas.size(); ++id) {
    target_.copy(arena.data(), running.arenas[id], arena.size());
    const std::string difference =
        FirstDifference(DType::kU8, arena, program.arenas[id], /*nan_alike=*/false);
    if (!difference.empty()) running.Fail("the memory of rank ", id, ": ", difference);
    for (int step = 0; step < static_cast<int>(program.steps.size()); ++step) {
      const Step& it = program.steps[At(step)];
      const int m = program.position(it.group, static_cast<int>(id));
      if (it.kind != StepKind::kCheck || m < 0) continue;
      if (program.arrays[At(it.array)].places[At(m)].arena < 0) continue;
      if (running.ranks[id]->seen(step) == Seen::kNothing) {
        running.Fail("rank ", id, " has not come to step ", step);
      }
    }
  }
}

// --- programs in which something goes wrong ------------------------------------------------------

void Session::CheckWrong(const Program& program, Running& running) {
  CheckTold(program, running);
  CheckOutcomes(program, running);
}

void Session::CheckTold(const Program& program, Running& running) {
  const int group = program.steps[At(program.wrong_step)].group;
  const absl::Status cause = running.regions[At(group)].status();
  // Where the Run ends before a peer has come to this Region, the Region has nothing to tell.
  const bool may_be_whole = KindOfRegion(program.wrong) == ErrorKind::kAbsentShard;
  if (KindOf(cause) != KindOfRegion(program.wrong) && !(may_be_whole && cause.ok())) {
    running.Fail("the Region's cause: ", cause.ToString());
  }
  if (KindOf(running.run) != KindOfRun(program.wrong) || running.run.ok()) {
    running.Fail("the Run's: ", running.run.ToString());
  }
  for (int id = 0; id < program.ranks; ++id) {
    const absl::Status& told = running.told[At(id)];
    if (id == program.wrong_rank && program.wrong != Wrong::kMismatch &&
        program.wrong != Wrong::kAcquires) {
      continue;
    }
    if (told.ok()) {
      if (program.position(group, id) >= 0) running.Fail("rank ", id, " was told nothing");
      continue;
    }
    // Whoever was told by this Region was told its first cause; by another one, that the Run
    // failed.
    const bool here =
        absl::StartsWith(told.message(), absl::StrCat("Region \"group ", group, "\""));
    const bool same = here && !cause.ok() && absl::StartsWith(told.message(), cause.message());
    const bool released = !here && KindOf(told) == ErrorKind::kAbsentShard;
    if (!same && !released) running.Fail("rank ", id, " was told: ", told.ToString());
  }
}

void Session::CheckOutcomes(const Program& program, Running& running) {
  std::vector<Outcomes> outcomes(program.groups.size());
  for (int at = 0; at < static_cast<int>(program.steps.size()); ++at) {
    if (program.steps[At(at)].kind == StepKind::kCheck)
      CheckOutcome(program, at, outcomes, running);
  }
}

// Of one operation, by the check that follows it.
void Session::CheckOutcome(const Program& program, int at, std::vector<Outcomes>& outcomes,
                           Running& running) {
  const Step& check = program.steps[At(at)];
  const auto writes = [&](const Step& step) {
    return std::any_of(step.calls.begin(), step.calls.end(),
                       [&](const Call& call) { return call.output == check.array; });
  };
  const auto made = std::find_if(program.steps.begin(), program.steps.end(), writes);
  const int made_at = static_cast<int>(made - program.steps.begin());
  bool ran = false, was_dropped = false;
  for (size_t id = 0; id < running.ranks.size(); ++id) {
    const Seen seen = running.ranks[id]->seen(at);
    ran = ran || seen == Seen::kRight;
    was_dropped = was_dropped || seen == Seen::kBefore;
    if (seen != Seen::kGarbage) continue;
    running.Fail("rank ", id, ", step ", at, ": neither the result nor what was there before");
  }
  if (ran && was_dropped) running.Fail("step ", made_at, ": on some ranks and not on others");
  Outcomes& of_group = outcomes[At(check.group)];
  if (was_dropped) of_group.first_dropped = std::min(of_group.first_dropped, made_at);
  if (ran) of_group.last_ran = std::max(of_group.last_ran, made_at);
  if (of_group.first_dropped < of_group.last_ran) {
    running.Fail("step ", of_group.last_ran, ": has run, and step ", of_group.first_dropped,
                 " before it has not");
  }
  const bool behind =
      made_at >= program.wrong_step && check.group == program.steps[At(program.wrong_step)].group;
  if (ran && behind) running.Fail("step ", made_at, ": has run, though its Region had failed");
}

}  // namespace mp::test
