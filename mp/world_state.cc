#include "mp/world_state.h"

#include <algorithm>
#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/check.h"
#include "mp/base/status.h"

namespace mp {
namespace {

// A waiting thread looks at the other ranks' operations at least this often.
constexpr absl::Duration kLook = absl::Seconds(1);

}  // namespace

// --- beginning and end -------------------------------------------------------------------------

absl::Status WorldState::Init(World& world) {
  MP_RETURN_IF_ERROR(InitRanks());
  MP_RETURN_IF_ERROR(InitRegions(world));
  for (int id = 0; options_.rank_threads && id < size(); ++id) {
    MP_ASSIGN_OR_RETURN(sync::Thread thread, sync::Thread::Start(absl::StrCat("mp-rank-", id),
                                                                 [this, id] { RankMain(id); }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status WorldState::InitRanks() {
  std::vector<int> devices = options_.devices;
  for (int i = 0; options_.devices.empty() && i < backend_->device_count(); ++i) {
    devices.push_back(i);
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
    rank->stream->set_watch(this);
    ranks_.push_back(std::move(rank));
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
    doors_.emplace_back(new Rank(&world, &rank(id), RankRegion(group, id)));
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
  // Handles that outlive the World keep its streams alive, but nobody watches over them.
  for (const auto& group : groups_) {
    for (int peer = 0; peer < group->size(); ++peer) group->comm_stream(peer).set_watch(nullptr);
  }
  for (const auto& rank : ranks_) {
    rank->stream->set_watch(nullptr);
    rank->memberships.clear();
  }
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
  std::vector<std::shared_ptr<Group>> groups;
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return absl::OkStatus();
    closed_ = true;
    groups = groups_;
  }
  for (const auto& group : groups) {
    group->Fail(ErrorKind::kClosed,
                absl::StrCat("the World of Region \"", group->name(), "\" is closed"));
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
  for (const auto& rank : ranks_) {
    drain(*rank->stream);
    for (const auto& stream : rank->more_streams) drain(*stream);
  }
  for (const auto& group : groups) {
    for (int peer = 0; peer < group->size(); ++peer) drain(group->comm_stream(peer));
  }
  if (busy.empty()) return absl::OkStatus();
  sync::MutexLock lock(mutex_);
  stuck_ = true;
  return absl::DeadlineExceededError(absl::StrCat("World::Close: ", busy, " after ",
                                                  absl::FormatDuration(options_.close_timeout)));
}

// --- Run ---------------------------------------------------------------------------------------

absl::Status WorldState::Run(const Body& body) {
  const uint64_t caller = sync::ThisThread();
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return MakeError(ErrorKind::kClosed, "World::Run: the World is closed");
    if (!options_.rank_threads) {
      return UsageError("World::Run: this World was made without rank threads");
    }
    if (running_) return UsageError("World::Run: another Run is on");
    for (const auto& rank : ranks_) {
      const uint64_t driver = rank->driver.load(sync::kRelaxed);
      if (driver == 0) continue;
      return UsageError("World::Run: ", driver == caller ? "this" : "another",
                        " thread is attached to rank ", rank->id);
    }
    running_ = true;
    first_status_ = absl::OkStatus();
  }
  for (int id = 0; id < size(); ++id) ComeBack(id);
  body_ = &body;
  busy_ranks_.store(size(), sync::kSeqCst);
  turn_.fetch_add(1, sync::kSeqCst);
  turn_signal_.Raise();
  while (busy_ranks_.load(sync::kSeqCst) != 0) {
    const uint32_t seen = done_signal_.Prepare();
    if (busy_ranks_.load(sync::kSeqCst) == 0) {
      done_signal_.Cancel();
      break;
    }
    done_signal_.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
  }
  for (int id = 0; id < size(); ++id) ComeBack(id);
  sync::MutexLock lock(mutex_);
  running_ = false;
  return std::exchange(first_status_, absl::OkStatus());
}

void WorldState::RankMain(int id) {
  uint64_t done = 0;
  const absl::Status bound = ranks_[static_cast<size_t>(id)]->device->BindThisThread();
  while (true) {
    const uint32_t seen = turn_signal_.Prepare();
    if (stopping_.load(sync::kSeqCst)) return turn_signal_.Cancel();
    if (turn_.load(sync::kSeqCst) == done) {
      turn_signal_.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
      continue;
    }
    turn_signal_.Cancel();
    ++done;
    const Body body = bound.ok() ? *body_ : [&bound](Rank&) { return bound; };
    absl::Status status = RunRank(id, body);
    {
      sync::MutexLock lock(mutex_);
      if (!status.ok()) {
        if (first_status_.ok()) first_status_ = std::move(status);
        status = absl::OkStatus();
      }
    }
    SetDriver(id, 0);
    busy_ranks_.fetch_sub(1, sync::kSeqCst);
    done_signal_.Raise();
  }
}

absl::Status WorldState::RunRank(int id, const Body& body) {
  SetDriver(id, sync::ThisThread());
  absl::Status status;
  std::string cause;
  try {
    status = body(*doors_[static_cast<size_t>(id)]);
    cause = status.ok() ? "its function has returned OK"
                        : absl::StrCat("its function has returned ",
                                       status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  } catch (const std::exception& error) {
    cause = absl::StrCat("its function has thrown: ", error.what());
    status = MakeError(ErrorKind::kUserException,
                       absl::StrCat("rank ", id, " has thrown: ", error.what()));
  } catch (...) {
    cause = "its function has thrown something that is no std::exception";
    status = MakeError(ErrorKind::kUserException,
                       absl::StrCat("rank ", id, " has thrown something that is no exception"));
  }
  if (!status.ok()) {
    // Before the peers are released, so that what they then return is not the first.
    sync::MutexLock lock(mutex_);
    if (first_status_.ok()) first_status_ = std::exchange(status, absl::OkStatus());
  }
  Leave(id, cause);
  absl::Status drained = rank(id).stream->Synchronize();
  std::vector<std::shared_ptr<Group>> groups;  // kept while their streams are looked at
  std::vector<Stream*> streams;
  {
    sync::MutexLock lock(mutex_);
    for (const auto& stream : rank(id).more_streams) streams.push_back(stream.get());
    for (const RankState::Membership& membership : rank(id).memberships) {
      groups.push_back(membership.group->shared_from_this());
      streams.push_back(&membership.group->comm_stream(membership.peer));
    }
  }
  for (Stream* stream : streams) {
    absl::Status one = stream->Synchronize();
    if (drained.ok()) drained = std::move(one);
  }
  return status.ok() ? drained : status;
}

// --- who drives a rank -------------------------------------------------------------------------

void WorldState::SetDriver(int id, uint64_t thread) {
  rank(id).driver.store(thread, sync::kRelaxed);
  rank(id).stream->set_driver(thread);
}

// Compute runs at once on the thread that drives its rank, unless that drives others as well: their
// work shall run side by side.
void WorldState::ShareDrivers() {
  for (const auto& rank : ranks_) {
    const uint64_t driver = rank->driver.load(sync::kRelaxed);
    const auto same = std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& other) {
      return other->driver.load(sync::kRelaxed) == driver;
    });
    rank->stream->set_driver(same == 1 ? driver : 0);
  }
}

void WorldState::Leave(int id, const std::string& cause) {
  sync::MutexLock lock(mutex_);
  sync::MutexLock order_lock(backend_->order().mutex);
  rank(id).left = true;
  rank(id).left_cause = cause;
  for (const RankState::Membership& membership : rank(id).memberships) {
    membership.group->MemberLeft(membership.peer, cause);
  }
}

void WorldState::ComeBack(int id) {
  sync::MutexLock lock(mutex_);
  sync::MutexLock order_lock(backend_->order().mutex);
  if (!rank(id).left) return;
  rank(id).left = false;
  for (const RankState::Membership& membership : rank(id).memberships) {
    membership.group->MemberCameBack();
  }
}

absl::StatusOr<Rank*> WorldState::Attach(int id) {
  if (id < 0 || id >= size()) {
    return InvalidArgument("World::Attach: rank ", id, " of ", size());
  }
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return MakeError(ErrorKind::kClosed, "World::Attach: the World is closed");
    if (running_) return UsageError("World::Attach: a Run is on");
    if (rank(id).driver.load(sync::kRelaxed) != 0) {
      return UsageError("World::Attach: rank ", id, " is driven by a thread already");
    }
    SetDriver(id, sync::ThisThread());
    ShareDrivers();
  }
  ComeBack(id);
  const absl::Status bound = rank(id).device->BindThisThread();
  if (!bound.ok()) {
    Detach(id);
    return bound;
  }
  return doors_[static_cast<size_t>(id)].get();
}

void WorldState::Detach(int id) {
  Leave(id, "its thread has detached");
  sync::MutexLock lock(mutex_);
  SetDriver(id, 0);
  ShareDrivers();
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

absl::StatusOr<std::shared_ptr<Group>> WorldState::NewGroup(const std::vector<int>& ranks,
                                                            const RegionOptions& options) {
  MP_RETURN_IF_ERROR(CheckRanks(ranks));
  GroupOptions group_options;
  group_options.name =
      !options.name.empty() ? options.name : absl::StrCat("ranks ", absl::StrJoin(ranks, ","));
  group_options.absence_timeout = options.absence_timeout.value_or(options_.absence_timeout);
  group_options.absence_warning = options_.absence_warning;
  group_options.max_lead = options.max_lead.value_or(options_.max_lead);
  group_options.watch = this;
  group_options.log = options_.log;
  if (group_options.max_lead < 1) {
    return InvalidArgument("NewRegion: max_lead ", group_options.max_lead, " must be positive");
  }
  if (group_options.absence_timeout < absl::ZeroDuration()) {
    return InvalidArgument("NewRegion: absence_timeout ",
                           absl::FormatDuration(group_options.absence_timeout),
                           " must not be negative");
  }
  std::vector<std::shared_ptr<RankState>> members;
  for (const int id : ranks) members.push_back(ranks_[static_cast<size_t>(id)]);
  sync::MutexLock lock(mutex_);
  if (closed_) return MakeError(ErrorKind::kClosed, "NewRegion: the World is closed");
  ReapGroups();
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> group,
                      Group::Create(backend_, std::move(members), std::move(group_options)));
  groups_.push_back(group);
  for (int peer = 0; peer < group->size(); ++peer) {
    group->member(peer).memberships.push_back({group.get(), peer});
  }
  return group;
}

// Lets go of Groups that nobody holds any more and that have nothing under way.
void WorldState::ReapGroups() {
  const auto idle = std::stable_partition(groups_.begin(), groups_.end(),
                                          [](const auto& group) { return !group->idle(); });
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
  MP_RETURN_IF_ERROR(CheckRanks(ranks));
  uint64_t call;
  {
    sync::MutexLock lock(mutex_);
    call = join_counts_[static_cast<size_t>(id)][ranks]++;
    Joining& joining = joining_[ranks][call];
    if (joining.group != nullptr) {
      std::shared_ptr<Group> group = joining.group;
      if (++joining.joined == ranks.size()) joining_[ranks].erase(call);
      return group;
    }
  }
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> made, NewGroup(ranks, options));
  sync::MutexLock lock(mutex_);
  Joining& joining = joining_[ranks][call];
  if (joining.group == nullptr) joining.group = std::move(made);  // else another rank was faster
  std::shared_ptr<Group> group = joining.group;
  if (++joining.joined == ranks.size()) joining_[ranks].erase(call);
  return group;
}

absl::StatusOr<Stream*> WorldState::NewStream(int id) {
  MP_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, rank(id).device->NewStream());
  stream->set_watch(this);
  sync::MutexLock lock(mutex_);
  rank(id).more_streams.push_back(std::move(stream));
  return rank(id).more_streams.back().get();
}

// --- waiting -----------------------------------------------------------------------------------

absl::Duration WorldState::OnStall(Stream&, absl::Duration) {
  const absl::Duration now = backend_->clock().Now();
  absl::Duration sleep = kLook;
  sync::MutexLock lock(mutex_);
  sync::MutexLock order_lock(backend_->order().mutex);
  for (const auto& group : groups_) sleep = std::min(sleep, group->CheckAbsence(now));
  return std::max(sleep, absl::ZeroDuration());
}

absl::Status WorldState::Synchronize(absl::Duration timeout) {
  sync::Clock& clock = backend_->clock();
  const absl::Duration end = clock.Now() + timeout;
  absl::Status first;
  for (const auto& rank : ranks_) {
    const absl::Duration left = std::max(end - clock.Now(), absl::ZeroDuration());
    absl::Status status =
        rank->stream->Synchronize(timeout == absl::InfiniteDuration() ? timeout : left);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace mp
