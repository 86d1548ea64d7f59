#include "mp/world_state.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/check.h"
#include "mp/base/cores.h"
#include "mp/base/status.h"
#include "mp/callback.h"
#include "mp/trace.h"
#include "mp/wait.h"
#include "mp/wait_graph.h"

namespace mp {
namespace {

// How long what is aborted may take to end.
constexpr absl::Duration kAbortPatience = absl::Seconds(2);

}  // namespace

// --- beginning and end -------------------------------------------------------------------------

absl::Status WorldState::CheckOptions() const {
  const auto check = [](absl::Duration duration, absl::string_view name) {
    if (duration >= absl::ZeroDuration()) return absl::OkStatus();
    return InvalidArgument("World: ", name, " ", absl::FormatDuration(duration),
                           " must not be negative");
  };
  MP_RETURN_IF_ERROR(check(options_.absence_timeout, "absence_timeout"));
  MP_RETURN_IF_ERROR(check(options_.absence_warning, "absence_warning"));
  MP_RETURN_IF_ERROR(check(options_.close_timeout, "close_timeout"));
  MP_RETURN_IF_ERROR(check(options_.device_deadline, "device_deadline"));
  if (options_.max_lead < 1) {
    return InvalidArgument("World: max_lead ", options_.max_lead, " must be at least 1");
  }
  if (options_.trace == nullptr || backend_->records()) return absl::OkStatus();
  return Unsupported("World: streams of the ", backend_->name(),
                     " backend do not record what they run; make the World without a trace");
}

absl::Status WorldState::Init(World& world) {
  MP_RETURN_IF_ERROR(CheckOptions());
  MP_RETURN_IF_ERROR(InitRanks());
  MP_RETURN_IF_ERROR(InitRegions(world));
  threads_.reserve(ranks_.size());  // a thread that runs has its place: nobody else could stop it
  for (int id = 0; options_.rank_threads && id < size(); ++id) {
    MP_ASSIGN_OR_RETURN(sync::Thread thread, sync::Thread::Start(absl::StrCat("mp-rank-", id),
                                                                 [this, id] { RankMain(id); }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status WorldState::InitRanks() {
  backend_->AddWatch(*this);
  watching_ = true;
  for (int i = 0; i < backend_->device_count(); ++i) {
    backend_->device(i).set_watch(&backend_->stall_watch());
  }
  std::vector<int> devices = options_.devices;
  for (int i = 0; options_.devices.empty() && i < backend_->device_count(); ++i) {
    devices.push_back(i);
  }
  WorldTrace* trace = nullptr;
  if (options_.trace != nullptr) {
    trace = &options_.trace->NewWorld(options_.name, backend_->clock());
  }
  for (size_t id = 0; id < devices.size(); ++id) {
    const int index = devices[id];
    if (index < 0 || index >= backend_->device_count()) {
      return InvalidArgument("World: rank ", id, " on device ", index, ", and the ",
                             backend_->name(), " backend has ", backend_->device_count());
    }
    auto rank = std::make_shared<RankState>();
    rank->id = static_cast<int>(id);
    rank->device = &backend_->device(index);
    MP_ASSIGN_OR_RETURN(rank->stream, rank->device->NewStream());
    rank->trace = trace;
    rank->Adopt(*rank->stream, "compute stream");
    ranks_.push_back(std::move(rank));
  }
  if (size() > 1) {
    MP_ASSIGN_OR_RETURN(communicator_, backend_->NewCommunicator(devices));
  }
  join_counts_.resize(ranks_.size());
  MeshPoint sizes;
  sizes.tensor = size();
  if (options_.mesh.has_value()) sizes = options_.mesh->sizes();
  MP_ASSIGN_OR_RETURN(mesh_, Mesh::Create(sizes));
  if (mesh_.world_size() == size()) return absl::OkStatus();
  return InvalidArgument("World: ", size(), " ranks, and the mesh has ", sizes.data, " x ",
                         sizes.pipeline, " x ", sizes.tensor, " = ", mesh_.world_size());
}

absl::Status WorldState::InitRegions(World& world) {
  std::vector<int> all;
  for (int id = 0; id < size(); ++id) all.push_back(id);
  RegionOptions options;
  options.name = "world";
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> group, NewGroup(all, options));
  world_region_.reset(new Region(group));
  for (int id = 0; id < size(); ++id) {
    doors_.emplace_back(new Rank(&world, this, &rank(id), RankRegion(group, id)));
  }
  for (const Axis axis : kAxes) {
    for (const std::vector<int>& ranks : mesh_.Groups(axis)) {
      options.name = absl::StrCat(AxisName(axis), " ", absl::StrJoin(ranks, ","));
      MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> part, NewGroup(ranks, options));
      axis_regions_[static_cast<size_t>(axis)].push_back(Region(part));
      for (size_t peer = 0; peer < ranks.size(); ++peer) {
        doors_[static_cast<size_t>(ranks[peer])]->axis_regions_.push_back(
            RankRegion(part, static_cast<int>(peer)));
      }
    }
  }
  return absl::OkStatus();
}

WorldState::~WorldState() {
  stopping_.exchange(true, sync::kSeqCst);
  turn_signal_.Raise();
  threads_.clear();
  if (watching_) backend_->RemoveWatch(*this);
  for (const auto& rank : ranks_) rank->memberships.clear();
}

absl::Status WorldState::Close() {
  const uint64_t caller = sync::ThisThread();
  for (const auto& rank : ranks_) {
    if (rank->driver.load(sync::kRelaxed) == caller) {
      return UsageError("World::Close on the thread that drives rank ", rank->id);
    }
  }
  sync::Clock& clock = backend_->clock();
  const absl::Duration end = clock.Now() + options_.close_timeout;
  KeptGroups groups;
  {
    sync::MutexLock lock(mutex_);
    if (closed_ && !stuck_) return absl::OkStatus();
    closed_ = true;
    stuck_ = false;  // to be seen
    groups.assign(groups_.begin(), groups_.end());
    sync::MutexLock order_lock(backend_->order().mutex);
    flight_->closed = true;
  }
  for (const auto& group : groups) {
    group->Fail(ErrorKind::kClosed,
                absl::StrCat("the World of Region \"", group->name(), "\" is closed"));
  }
  int graphs = 0;
  for (const auto& group : groups) graphs += group->live_graphs();
  if (graphs > 0) {
    Log(absl::StrCat("mp: the World is closed, and ", graphs,
                     " of its graphs are alive; they cannot be launched any more"));
  }
  std::string busy;
  while (busy_ranks_.load(sync::kSeqCst) != 0) {
    const uint32_t seen = done_signal_.Prepare();
    const absl::Duration left = end - clock.Now();
    if (busy_ranks_.load(sync::kSeqCst) == 0 || left <= absl::ZeroDuration()) {
      done_signal_.Cancel();
      if (left <= absl::ZeroDuration()) busy = "a rank's function has not returned";
      break;
    }
    done_signal_.Sleep(clock, seen, left);
  }
  const auto drain = [&](Stream& stream) {
    const absl::Duration left = std::max(end - clock.Now(), absl::ZeroDuration());
    if (!stream.Record().Synchronize(left).ok()) busy = "work is still running";
  };
  for (int id = 0; id < size(); ++id) {
    for (Stream* stream : StreamsOf(id, groups)) drain(*stream);
  }
  if (busy.empty()) {
    for (const auto& group : groups) group->ReleaseCompiled();
    return absl::OkStatus();
  }
  // An operation that holds places is done by whoever comes last, and ends by itself.
  const bool aborts = communicator_ != nullptr && !communicator_->holds_places();
  {
    sync::MutexLock lock(mutex_);
    stuck_ = true;
    if (aborts && !std::exchange(broken_, true)) {
      BreakGroups({ErrorKind::kClosed, "its World was closed, and what was under way was aborted"});
    }
  }
  if (aborts) communicator_->Abort();
  backend_->order().IssueTicketed();
  return absl::DeadlineExceededError(absl::StrCat("World::Close: ", busy, " after ",
                                                  absl::FormatDuration(options_.close_timeout)));
}

std::vector<RecentOperation> WorldState::Recent() {
  std::vector<RecentOperation> recent;
  const CycleClock::Reading now = flight_->clock.Now();
  sync::MutexLock lock(backend_->order().mutex);
  for (const auto& rank : ranks_) {
    std::vector<RecentOperation> one = rank->flight.Recent(rank->id, now);
    std::move(one.begin(), one.end(), std::back_inserter(recent));
  }
  return recent;
}

// --- Regions and streams -----------------------------------------------------------------------

absl::Status WorldState::CheckRanks(const std::vector<int>& ranks) const {
  if (ranks.empty()) return InvalidArgument("NewRegion: no ranks");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size()) {
      return InvalidArgument("NewRegion: rank ", ranks[i], " of a World of ", size());
    }
    if (std::find(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(i), ranks[i]) !=
        ranks.begin() + static_cast<ptrdiff_t>(i)) {
      return InvalidArgument("NewRegion: rank ", ranks[i], " is named twice");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupOptions> WorldState::OptionsOf(const std::vector<int>& ranks,
                                                   const RegionOptions& options) {
  MP_RETURN_IF_ERROR(CheckRanks(ranks));
  GroupOptions group_options;
  group_options.name =
      !options.name.empty() ? options.name : absl::StrCat("ranks ", absl::StrJoin(ranks, ","));
  group_options.absence_timeout = options.absence_timeout.value_or(options_.absence_timeout);
  group_options.absence_warning = options_.absence_warning;
  group_options.max_lead = options.max_lead.value_or(options_.max_lead);
  group_options.first_sequence = options.first_sequence;
  group_options.run = run_;
  group_options.flight = flight_;
  group_options.watch = &backend_->stall_watch();
  if (group_options.max_lead < 1) {
    return InvalidArgument("NewRegion: max_lead ", group_options.max_lead, " must be positive");
  }
  if (group_options.absence_timeout < absl::ZeroDuration()) {
    return InvalidArgument("NewRegion: absence_timeout ",
                           absl::FormatDuration(group_options.absence_timeout),
                           " must not be negative");
  }
  return group_options;
}

absl::StatusOr<std::shared_ptr<Group>> WorldState::NewGroup(const std::vector<int>& ranks,
                                                            const RegionOptions& options) {
  MP_ASSIGN_OR_RETURN(GroupOptions group_options, OptionsOf(ranks, options));
  std::vector<std::shared_ptr<RankState>> members;
  for (const int id : ranks) members.push_back(ranks_[static_cast<size_t>(id)]);
  sync::MutexLock lock(mutex_);
  if (closed_) return MakeError(ErrorKind::kClosed, "NewRegion: the World is closed");
  ReapGroups();
  MP_ASSIGN_OR_RETURN(
      std::shared_ptr<Group> group,
      Group::Create(backend_, std::move(members), communicator_.get(), std::move(group_options)));
  groups_.push_back(group);
  KeepLog(group->log());
  for (int peer = 0; peer < group->size(); ++peer) {
    group->member(peer).memberships.push_back({group.get(), peer});
  }
  return group;
}

// A Region's log is kept for as long as a rank's last posts speak of it.
void WorldState::KeepLog(const std::shared_ptr<const RegionLog>& log) {
  sync::MutexLock lock(backend_->order().mutex);
  auto& regions = flight_->regions;
  const auto gone = [this](const std::shared_ptr<const RegionLog>& region) {
    return region.use_count() == 1 &&
           std::none_of(ranks_.begin(), ranks_.end(),
                        [&](const auto& rank) { return rank->flight.Mentions(*region); });
  };
  regions.erase(std::remove_if(regions.begin(), regions.end(), gone), regions.end());
  regions.push_back(log);
}

// Lets go of Groups that nobody holds any more and that have nothing under way.
void WorldState::ReapGroups() {
  const auto idle = std::stable_partition(groups_.begin(), groups_.end(),
                                          [](const auto& group) { return !group->IsIdle(); });
  for (auto it = idle; it != groups_.end(); ++it) {
    for (int peer = 0; peer < (*it)->size(); ++peer) {
      auto& memberships = (*it)->member(peer).memberships;
      memberships.erase(
          std::find_if(memberships.begin(), memberships.end(),
                       [&](const auto& membership) { return membership.group == it->get(); }));
    }
  }
  groups_.erase(idle, groups_.end());
}

absl::StatusOr<std::shared_ptr<Group>> WorldState::JoinGroup(int id, const std::vector<int>& ranks,
                                                             const RegionOptions& options) {
  if (std::find(ranks.begin(), ranks.end(), id) == ranks.end()) {
    return InvalidArgument("NewRegion: rank ", id, " makes a Region of ranks ",
                           absl::StrJoin(ranks, ","), " and is not one of them");
  }
  MP_ASSIGN_OR_RETURN(const GroupOptions wanted, OptionsOf(ranks, options));
  // Made before the lock, and let go of if another rank was faster.
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> made, NewGroup(ranks, options));
  sync::MutexLock lock(mutex_);
  uint64_t& count = join_counts_[static_cast<size_t>(id)][ranks];
  Joining& joining = joining_[ranks][count];
  if (joining.group != nullptr) {
    const GroupOptions& given = joining.group->options();
    if (given.name != wanted.name || given.absence_timeout != wanted.absence_timeout ||
        given.max_lead != wanted.max_lead) {
      return InvalidArgument("NewRegion: rank ", id, " asks for a Region \"", wanted.name,
                             "\" with other options than a peer, whose name for it is \"",
                             given.name, "\"");
    }
    made = joining.group;
  } else {
    joining.group = made;
  }
  if (++joining.joined == ranks.size()) joining_[ranks].erase(count);
  ++count;
  return made;
}

absl::StatusOr<Stream*> WorldState::NewStream(int id) {
  MP_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, rank(id).device->NewStream());
  sync::MutexLock lock(mutex_);
  rank(id).Adopt(*stream, absl::StrCat("stream ", rank(id).more_streams.size()));
  rank(id).more_streams.push_back(std::move(stream));
  return rank(id).more_streams.back().get();
}

// --- waiting -----------------------------------------------------------------------------------

// The Groups' operations may have been in the way of others': whoever calls it issues those.
void WorldState::BreakGroups(const Failure& cause) {
  sync::MutexLock order_lock(backend_->order().mutex);
  if (!flight_->broken.failed()) flight_->broken = cause;
  for (const auto& group : groups_) group->Break(cause);
}

void WorldState::CheckHealth() {
  if (communicator_ == nullptr) return;
  const absl::Status health = communicator_->Health();
  if (health.ok()) return;
  Break({KindOf(health),
         absl::StrCat("all operations of its World were aborted, because ", health.message())});
}

void WorldState::Break(const Failure& cause) {
  {
    sync::MutexLock lock(mutex_);
    if (std::exchange(broken_, true)) return;
    BreakGroups(cause);
  }
  communicator_->Abort();
}

bool WorldState::TakesTheLook(absl::Duration now, absl::Duration interval) {
  int64_t last = last_look_.load(sync::kRelaxed);
  const int64_t this_one = absl::ToInt64Nanoseconds(now);
  return this_one - last >= absl::ToInt64Nanoseconds(interval) &&
         last_look_.compare_exchange_strong(last, this_one, sync::kRelaxed, sync::kRelaxed);
}

// What `stream` waits for, one of the application's perhaps, may stand on any other one.
absl::Duration WorldState::CheckStanding(Stream& stream, absl::Duration waited) {
  const absl::Duration deadline = options_.device_deadline;
  const bool can_stand = communicator_ != nullptr && !communicator_->holds_places();
  if (!can_stand || deadline == absl::InfiniteDuration()) return absl::InfiniteDuration();
  bool broken;
  {
    sync::MutexLock lock(mutex_);
    broken = broken_;
  }
  // One of those who wait looks, now and then; in the end each does, and sees to its own stream.
  const absl::Duration now = backend_->clock().Now();
  const absl::Duration interval = std::min(deadline / 8, absl::Milliseconds(250));
  if (!broken && waited < deadline && !TakesTheLook(now, interval)) return interval;
  KeptGroups groups;
  RankState *owner = nullptr, *blocker = nullptr;
  Stream* standing = nullptr;
  absl::Duration longest = absl::ZeroDuration();
  for (int id = 0; id < size(); ++id) {
    for (Stream* const own : StreamsOf(id, groups)) {
      if (own == &stream) owner = &rank(id);
      const auto seen = own->StandsStill(now);
      if (!seen.has_value() || (standing != nullptr && *seen <= longest)) continue;
      standing = own;
      blocker = &rank(id);
      longest = *seen;
    }
  }
  if (standing == nullptr) return absl::InfiniteDuration();
  const absl::Duration stands = std::min(longest, waited);  // before that it may have been idle
  const absl::Duration patience = std::min(deadline, kAbortPatience);
  const absl::Duration left = (broken ? deadline + patience : deadline) - stands;
  if (left > absl::ZeroDuration()) return left;
  const std::string what =
      absl::StrCat(standing->name(), " on ", blocker->device->name(), " has not moved for ",
                   absl::FormatDuration(deadline), " (device_deadline) with operations on it");
  if (!broken) {
    Break({ErrorKind::kDeviceError,
           absl::StrCat("all operations of its World were aborted, because ", what)});
    return patience;
  }
  const Failure lost = {ErrorKind::kDeviceLost,
                        absl::StrCat(what, ", nor after an abort: restart the process")};
  blocker->device->Abandon();
  standing->Abandon(lost);
  // Another World sees to its own.
  if (owner != nullptr) owner->device->Abandon();
  const bool there = stream.native().device == standing->native().device;
  if (owner != nullptr || there) stream.Abandon(lost);
  return absl::ZeroDuration();
}

void WorldState::Log(const std::string& line) const {
  const Callback callback;
  if (options_.log) options_.log(line);
}

// Rank threads on one core, beside an idle one, take turns by waiting each other out.
void WorldState::SpreadOut() const {
  std::vector<uint32_t> others;
  bool drives = false;
  for (const auto& rank : ranks_) {
    const uint64_t driver = rank->driver.load(sync::kRelaxed);
    drives = drives || driver == sync::ThisThread();
    if (driver == 0 || driver == sync::ThisThread()) continue;
    others.push_back(rank->core.load(sync::kRelaxed));
  }
  const uint32_t mine = sync::ThisCore();
  if (!drives || std::find(others.begin(), others.end(), mine) == others.end()) return;
  if (const auto core = QuieterCore(mine, others, AllowedCores())) MoveToCore(*core);
}

absl::Duration WorldState::OnStall(Stream& stream, absl::Duration waited) {
  CheckHealth();
  absl::Duration sleep = CheckStanding(stream, waited);
  const absl::Duration now = backend_->clock().Now();
  std::vector<std::string> warnings;
  {
    sync::MutexLock lock(mutex_);
    sync::MutexLock order_lock(backend_->order().mutex);
    const Wait* const wait = Wait::Current();
    if (wait != nullptr && WaitGraph(ranks_, backend_->order()).FailDeadlock(*wait)) {
      sleep = absl::ZeroDuration();
    }
    for (const auto& group : groups_) {
      sleep = std::min(sleep, group->CheckAbsence(now, warnings));
    }
  }
  for (const std::string& warning : warnings) Log(warning);
  if (sleep > absl::ZeroDuration()) SpreadOut();
  return std::max(sleep, absl::ZeroDuration());
}

WorldState::Streams WorldState::StreamsOf(int id, KeptGroups& keep) {
  Streams streams;
  sync::MutexLock lock(mutex_);
  for (const auto& stream : rank(id).more_streams) streams.push_back(stream.get());
  for (const RankState::Membership& membership : rank(id).memberships) {
    keep.push_back(membership.group->shared_from_this());
    streams.push_back(&membership.group->comm_stream(membership.peer));
  }
  streams.push_back(rank(id).stream.get());  // last: it is told what went wrong on the others
  return streams;
}

absl::Status WorldState::SynchronizeRank(int id, absl::Duration timeout) {
  sync::Clock& clock = backend_->clock();
  KeptGroups groups;
  const bool endless = timeout == absl::InfiniteDuration();
  const absl::Duration end = endless ? timeout : clock.Now() + timeout;
  absl::Status first;
  for (Stream* stream : StreamsOf(id, groups)) {
    absl::Status status =
        stream->Synchronize(endless ? timeout : std::max(end - clock.Now(), absl::ZeroDuration()));
    if (first.ok()) first = std::move(status);
  }
  return first;
}

absl::Status WorldState::Synchronize(absl::Duration timeout) {
  if (timeout < absl::ZeroDuration()) {
    return InvalidArgument("timeout ", absl::FormatDuration(timeout), ": must not be negative");
  }
  sync::Clock& clock = backend_->clock();
  const bool endless = timeout == absl::InfiniteDuration();
  const absl::Duration end = endless ? timeout : clock.Now() + timeout;
  absl::Status first;
  for (int id = 0; id < size(); ++id) {
    absl::Status status =
        SynchronizeRank(id, endless ? timeout : std::max(end - clock.Now(), absl::ZeroDuration()));
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace mp
