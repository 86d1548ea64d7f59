#include "mp/group.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "mp/agreement.h"
#include "mp/base/check.h"
#include "mp/wait.h"

namespace mp {
namespace {

// How often a thread that waits for its peers' posts looks before it sleeps: some 10 us, then as
// much again while others may have the core.
constexpr int kPauses = sync::Looks(200);
constexpr int kYields = sync::Looks(20);

}  // namespace

Group::Group(std::shared_ptr<Backend> backend, std::vector<std::shared_ptr<RankState>> members,
             GroupOptions options)
    : backend_(std::move(backend)),
      order_(backend_->order()),
      clock_(backend_->clock()),
      members_(std::move(members)),
      options_(std::move(options)),
      log_(std::make_shared<RegionLog>(options_.name)),
      next_(members_.size(), options_.first_sequence),
      window_begin_(options_.first_sequence),
      issued_(options_.first_sequence) {
  for (const auto& member : members_) ranks_.push_back(member->id);
}

absl::StatusOr<std::shared_ptr<Group>> Group::Create(
    std::shared_ptr<Backend> backend, std::vector<std::shared_ptr<RankState>> members,
    Communicator* of_world, GroupOptions options) {
  std::shared_ptr<Group> group(
      new Group(std::move(backend), std::move(members), std::move(options)), DeleteInMaker());
  for (const auto& member : group->members_) {
    MP_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, member->device->NewStream());
    member->Adopt(*stream, absl::StrCat("stream of Region \"", group->name(), "\""));
    group->comm_streams_.push_back(std::move(stream));
  }
  WorldTrace* const trace = group->member(0).trace;
  if (trace != nullptr) group->traced_name_ = trace->NewRegion(group->name());
  if (group->size() > 1) {
    MP_ASSIGN_OR_RETURN(group->communicator_, of_world->Split(group->ranks_));
  }
  sync::MutexLock lock(group->order_.mutex);
  for (const auto& member : group->members_) group->left_ += member->left;
  return group;
}

Group::~Group() {
  while (!AllRetired()) sync::Yield();  // the last one's streams are free a moment earlier
}

int Group::PeerOf(const RankState& rank) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& member) { return member.get() == &rank; });
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

Stream& Group::LaneStream(int peer, Lane lane) {
  return lane == Lane::kCompute ? *member(peer).stream : comm_stream(peer);
}

// --- post --------------------------------------------------------------------------------------

absl::Status Group::Post(int peer, absl::Span<const Descriptor> steps, absl::Span<const Part> parts,
                         Lane lane, Work* work, const GraphPart& graph_part) {
  if (!failed_.load(sync::kRelaxed)) MP_RETURN_IF_ERROR(CheckDriver(peer));
  member(peer).NoteCore(sync::ThisCore());
  Stream& stream = LaneStream(peer, lane);
  MP_RETURN_IF_ERROR(CheckRoom(peer, lane));
  const bool places = communicator_->holds_places();
  if (!places) MP_RETURN_IF_ERROR(OrderInputs(peer, lane));
  uint64_t sequence;
  Operation* operation;
  bool arrives;
  {
    sync::MutexLock lock(order_.mutex);
    MP_RETURN_IF_ERROR(CheckPost(peer));
    if (places) MP_RETURN_IF_ERROR(OrderInputs(peer, lane));
    order_.last_post = sync::Cycles();
    operation = &Join(peer, steps, parts);
    member(peer).flight.Add(*log_, operation->sequence, steps, parts, lane == Lane::kComm,
                            order_.last_post);
    operation->streams[static_cast<size_t>(peer)] = &stream;
    if (!graph_part.recordings.empty()) {
      operation->recordings.resize(members_.size());
      operation->recordings[static_cast<size_t>(peer)] = graph_part.recordings[0];
    }
    if (operation->posted == 1) SetGraph(*operation, graph_part.graph);
    sequence = operation->sequence;
    arrives = communicator_->Enter(*operation, peer);
    member(peer).flight.SetPosition(operation->positions[static_cast<size_t>(peer)]);
    const Event place = places || work != nullptr ? stream.Record() : Event();
    if (place.stream != nullptr) operation->positions[static_cast<size_t>(peer)] = place.position;
    if (work != nullptr) *work = Work(shared_from_this(), sequence, place);
    if (operation->posted == size()) AgreeOrFail(*operation);
  }
  if (arrives) communicator_->Arrive(*operation, peer);
  IssueTicketed();
  // What is queued next on a compute stream must stand behind the operation.
  const bool until_issued = !places && lane == Lane::kCompute;
  return AwaitLead(peer, sequence, until_issued || !graph_part.recordings.empty());
}

// An overlapped operation begins after what the rank's compute stream holds.
absl::Status Group::OrderInputs(int peer, Lane lane) {
  if (lane == Lane::kCompute) return absl::OkStatus();
  return comm_stream(peer).Wait(member(peer).stream->Record());
}

absl::Status Group::CheckDriver(int peer) const {
  if (member(peer).driver.load(sync::kRelaxed) == sync::ThisThread()) return absl::OkStatus();
  return UsageError("Region \"", name(), "\": rank ", member(peer).id,
                    " is not driven by this thread (World::Run and World::Attach say which is)");
}

// An overlapped operation stands on one stream and waits for a mark in the other.
absl::Status Group::CheckRoom(int peer, Lane lane) {
  absl::Status status = LaneStream(peer, lane).CheckRoom();
  if (status.ok() && lane == Lane::kComm) status = member(peer).stream->CheckRoom();
  if (status.ok()) return status;
  return MakeError(KindOf(status), absl::StrCat("Region \"", name(), "\": rank ", member(peer).id,
                                                ": ", status.message()));
}

absl::Status Group::CheckPost(int peer) {
  const uint64_t sequence = next_[static_cast<size_t>(peer)];
  if (options_.run->failed) FailWithRun();
  if (left_ > 0 && !failure_.failed()) {
    for (int other = 0; other < size(); ++other) {
      if (!member(other).left || next_[static_cast<size_t>(other)] > sequence) continue;
      FailLocked(sequence, ErrorKind::kAbsentShard,
                 absl::StrCat(Head(sequence), ": rank ", member(other).id, " cannot come, ",
                              member(other).left_cause, " after ",
                              next_[static_cast<size_t>(other)], " operations of this Region"));
    }
  }
  if (!failure_.failed()) return absl::OkStatus();
  const Failure told = failure_.With(OnRank(peer));
  member(peer).stream->TakeBack(told.message);
  return told.ToStatus();
}

// The operation waits for absent ranks no longer than a rank does that brings `parts`.
void Group::Shorten(Slot& slot, absl::Span<const Part> parts) const {
  for (const Part& part : parts) {
    const bool given = part.absence_timeout >= absl::ZeroDuration();
    slot.absence_timeout =
        std::min(slot.absence_timeout, given ? part.absence_timeout : options_.absence_timeout);
  }
}

Operation& Group::Join(int peer, absl::Span<const Descriptor> steps, absl::Span<const Part> parts) {
  const uint64_t sequence = next_[static_cast<size_t>(peer)]++;
  const size_t index = sequence - window_begin_;
  if (index == window_.size()) {
    Slot slot;
    slot.operation = NewOperation();
    slot.operation->sequence = sequence;
    slot.operation->steps.assign(steps.begin(), steps.end());
    slot.operation->parts.resize(steps.size() * members_.size());
    window_.Push(slot);
  }
  Shorten(window_[index], parts);
  Operation& operation = *window_[index].operation;
  ++operation.posted;
  Append(peer, operation);
  if (operation.posted > 1 && !Agree(operation.steps, steps)) {
    operation.differing.push_back({peer, {steps.begin(), steps.end()}});
    return operation;
  }
  for (size_t step = 0; step < parts.size(); ++step) {
    operation.parts[step * members_.size() + static_cast<size_t>(peer)] = parts[step];
  }
  return operation;
}

// Puts the operation at the end of what `peer`'s rank has posted.
void Group::Append(int peer, Operation& operation) {
  RingQueue<Pending>& pending = member(peer).pending;
  if (pending.empty()) ++operation.oldest;
  pending.Push(Pending{this, &operation, order_.last_post});
}

Operation* Group::NewOperation() {
  if (free_.empty()) {
    Operation* retired = retired_.exchange(nullptr, sync::kAcquire);
    for (; retired != nullptr; retired = retired->next_retired) free_.push_back(retired);
  }
  if (free_.empty()) {
    operations_.push_back(communicator_->NewOperation(*this));
    operations_.back()->traced_region = traced_name_;
    free_.reserve(operations_.size());
    free_.push_back(operations_.back().get());
  }
  Operation* operation = free_.back();
  free_.pop_back();
  operation->posted = 0;
  operation->oldest = 0;
  operation->ticket = 0;
  operation->positions.assign(members_.size(), Operation::kNowhere);
  operation->differing.clear();
  operation->recordings.clear();
  operation->graph = nullptr;
  return operation;
}

absl::Status Group::CheckPostAll(Lane lane) const {
  MP_RETURN_IF_ERROR(CheckNotRecording());
  if (failure_.failed()) return failure_.ToStatus();
  for (int peer = 0; peer < size(); ++peer) {
    if (lane == Lane::kCompute && member(peer).driver.load(sync::kRelaxed) != 0) {
      return UsageError("Region \"", name(), "\": a thread drives rank ", member(peer).id,
                        "; while it does, only the Start forms may be called for all ranks");
    }
    const uint64_t next = next_[static_cast<size_t>(peer)];
    if (next != next_[0]) {
      return UsageError("Region \"", name(), "\": ranks ", member(0).id, " and ", member(peer).id,
                        " have posted ", next_[0], " and ", next,
                        " operations through their own doors; both doors at once do not mix");
    }
  }
  return absl::OkStatus();
}

absl::Status Group::PostAll(const Descriptor& step, absl::Span<const Part> parts,
                            std::vector<Operation::Differing> differing, Lane lane,
                            std::vector<Work>* works, const GraphPart& graph_part) {
  // Before anything that could wait for a peer, which may wait for the calling thread's capture.
  MP_RETURN_IF_ERROR(CheckNotRecording());
  for (int peer = 0; peer < size(); ++peer) MP_RETURN_IF_ERROR(CheckRoom(peer, lane));
  const bool places = communicator_->holds_places();
  for (int peer = 0; !places && peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(OrderInputs(peer, lane));
  }
  absl::InlinedVector<bool, 16> arrives(members_.size());
  bool all_arrive;
  Operation* operation;
  uint64_t sequence;
  {
    sync::MutexLock lock(order_.mutex);
    MP_RETURN_IF_ERROR(CheckPostAll(lane));
    operation = NewOperation();
    sequence = operation->sequence = next_[0];
    operation->steps.assign(1, step);
    operation->parts.assign(parts.begin(), parts.end());
    operation->posted = size();
    operation->differing = std::move(differing);
    operation->recordings = graph_part.recordings;
    const std::string wrong = FindDisagreement(*operation, ranks_);
    if (!wrong.empty()) {
      operation->recordings.clear();
      free_.push_back(operation);
      return InvalidArgument(Head(sequence), ": ", wrong, "; nothing was launched");
    }
    for (int peer = 0; peer < size(); ++peer) {
      operation->streams[static_cast<size_t>(peer)] = &LaneStream(peer, lane);
      const absl::Status ordered = places ? OrderInputs(peer, lane) : absl::OkStatus();
      if (ordered.ok()) continue;
      free_.push_back(operation);
      return ordered;
    }
    SetGraph(*operation, graph_part.graph);
    all_arrive = EnterAll(*operation, lane, absl::MakeSpan(arrives));
    for (int peer = 0; (places || works != nullptr) && peer < size(); ++peer) {
      const Event place = LaneStream(peer, lane).Record();
      operation->positions[static_cast<size_t>(peer)] = place.position;
      if (works != nullptr) works->push_back(Work(shared_from_this(), sequence, place));
    }
    TicketOrFindCrossing(*operation);
    all_arrive = all_arrive && operation->ticket != 0;
  }
  if (all_arrive) {
    communicator_->ArriveAll(*operation);
  } else {
    for (int peer = 0; peer < size(); ++peer) {
      if (arrives[static_cast<size_t>(peer)]) communicator_->Arrive(*operation, peer);
    }
  }
  IssueTicketed();
  if (!graph_part.recordings.empty()) return AwaitLead(0, sequence, true);
  return places ? absl::OkStatus() : AwaitLead(0, sequence, lane == Lane::kCompute);
}

// A launch counts until the operation comes back.
void Group::SetGraph(Operation& operation, RecordedGraph* graph) {
  operation.graph = graph;
  if (graph != nullptr) graph->launches.fetch_add(1, sync::kRelaxed);
}

// Every rank posts the operation and takes its place; true where all are to arrive.
bool Group::EnterAll(Operation& operation, Lane lane, absl::Span<bool> arrives) {
  Slot slot;
  slot.operation = &operation;
  Shorten(slot, operation.parts);
  window_.Push(slot);
  bool all = true;
  const uint64_t now = order_.last_post = sync::Cycles();
  for (int peer = 0; peer < size(); ++peer) {
    member(peer).flight.Add(
        *log_, operation.sequence, operation.steps,
        absl::MakeConstSpan(operation.parts).subspan(static_cast<size_t>(peer), 1),
        lane == Lane::kComm, now);
    ++next_[static_cast<size_t>(peer)];
    Append(peer, operation);
    const bool one = communicator_->Enter(operation, peer);
    member(peer).flight.SetPosition(operation.positions[static_cast<size_t>(peer)]);
    arrives[static_cast<size_t>(peer)] = one;
    all = all && one;
  }
  return all;
}

// --- agreement ---------------------------------------------------------------------------------

void Group::AgreeOrFail(Operation& operation) {
  const std::string wrong = FindDisagreement(operation, ranks_);
  if (wrong.empty()) return TicketOrFindCrossing(operation);
  FailLocked(operation.sequence, ErrorKind::kMismatch,
             absl::StrCat(Head(operation.sequence), ": ", wrong, "; nothing was launched"));
}

// --- ticket ------------------------------------------------------------------------------------

bool Group::Ready(const Operation& operation) {
  return operation.posted == operation.world_size && operation.oldest == operation.world_size;
}

void Group::GiveTicket(Operation& operation, std::vector<Pending>& next) {
  MP_CHECK(window_.front().operation == &operation);
  window_.Pop();
  ++window_begin_;
  operation.ticket = ++order_.tickets;
  log_->Agreed(operation.sequence, order_.last_post);
  for (const auto& member : members_) {
    member->pending.Pop();
    if (member->pending.empty()) continue;
    const Pending& front = member->pending.front();
    ++front.operation->oldest;
    if (Ready(*front.operation)) next.push_back(front);
  }
  if (!communicator_->holds_places()) {
    order_.to_issue.Push(Order::Ticketed{this, &operation});
    return;
  }
  if (!operation.recordings.empty()) Conclude(std::move(operation.recordings), true);
  log_->Issued(operation.sequence, order_.last_post);
  issued_.store(operation.sequence + 1, sync::kSeqCst);
  progress_.Raise();
  const absl::Status status = communicator_->Issue(operation);
  if (!status.ok()) FailLocked(window_begin_, KindOf(status), std::string(status.message()));
}

void Group::GiveTickets(std::vector<Pending> next) {
  while (!next.empty()) {
    const Pending pending = next.back();
    next.pop_back();
    pending.group->GiveTicket(*pending.operation, next);
  }
}

// A fully posted operation gets its ticket, or waits for older ones of its ranks.  If those, over
// any number of Regions, wait for this one, the ranks have posted in crossed orders.
void Group::TicketOrFindCrossing(Operation& operation) {
  if (Ready(operation)) {
    std::vector<Pending> next;
    GiveTicket(operation, next);
    if (!next.empty()) GiveTickets(std::move(next));
    return;
  }
  std::vector<Pending> path{Pending{this, &operation}};
  std::vector<const Operation*> seen;
  if (!LeadsBack(path, seen)) return;  // waits for ranks that have not posted yet
  std::string text = "the ranks have posted in crossed orders, each before the next: ";
  for (const Pending& pending : path) {
    absl::StrAppend(&text, pending.group->Head(pending.operation->sequence), " (",
                    Describe(pending.operation->steps), "), ");
  }
  absl::StrAppend(&text, "and the first again; nothing was launched");
  for (const Pending& pending : path) {
    pending.group->FailLocked(pending.operation->sequence, ErrorKind::kMismatch, text);
  }
}

// Whether the last operation of `path` waits, by way of fully posted ones, for the first; then
// `path` is that way.
bool Group::LeadsBack(std::vector<Pending>& path, std::vector<const Operation*>& seen) {
  const Pending here = path.back();
  for (const auto& member : here.group->members_) {
    const Pending older = member->pending.front();
    if (older.operation == here.operation ||
        older.operation->posted != older.operation->world_size) {
      continue;
    }
    if (older.operation == path.front().operation) return true;
    if (std::find(seen.begin(), seen.end(), older.operation) != seen.end()) continue;
    seen.push_back(older.operation);
    path.push_back(older);
    if (LeadsBack(path, seen)) return true;
    path.pop_back();
  }
  return false;
}

// --- issue -------------------------------------------------------------------------------------

void Group::IssueTicketed() {
  if (!communicator_->holds_places()) order_.IssueTicketed();
}

void Group::IssueNow(Operation& operation) {
  const uint64_t sequence = operation.sequence;
  if (!operation.recordings.empty()) Conclude(std::move(operation.recordings), false);
  const absl::Status status = communicator_->Issue(operation);
  if (status.ok()) log_->Issued(sequence, sync::Cycles());
  if (!status.ok()) {
    const absl::Status health = communicator_->Health();
    sync::MutexLock lock(order_.mutex);
    const ErrorKind kind =
        KindOf(status) == ErrorKind::kNone ? ErrorKind::kDeviceError : KindOf(status);
    FailLocked(sequence, kind, absl::StrCat(Head(sequence), ": ", status.message()));
    // Under the same lock: a rank that its call has told of it is not told again later.
    if (!health.ok()) Break(Failure{KindOf(health), std::string(health.message())});
  }
  // The Worlds see to what else that has broken.
  if (!status.ok()) options_.watch->OnStall(*member(0).stream, absl::ZeroDuration());
  issued_.store(sequence + 1, sync::kSeqCst);
  progress_.Raise();
}

void Group::Retire(Operation& operation) {
  if (operation.graph != nullptr) operation.graph->launches.fetch_sub(1, sync::kRelease);
  Operation* head = retired_.load(sync::kRelaxed);
  do {
    operation.next_retired = head;
  } while (!retired_.compare_exchange_weak(head, &operation, sync::kRelease, sync::kRelaxed));
}

void Group::Ran(Operation& operation) { log_->Completed(operation.sequence, sync::Cycles()); }

absl::Status Group::AwaitLead(int peer, uint64_t sequence, bool until_issued) {
  const auto lead = static_cast<uint64_t>(options_.max_lead);
  const uint64_t target = until_issued          ? sequence + 1
                          : sequence + 2 > lead ? sequence + 2 - lead
                                                : 0;
  // An operation before the failed one is issued, and what its rank queues next stands behind it.
  const auto over = [&] {
    return issued_.load(sync::kSeqCst) >= target ||
           (failed_.load(sync::kSeqCst) && !StatusOf(sequence).ok());
  };
  for (int i = 0; i < kPauses + kYields && !over(); ++i) {
    i < kPauses ? sync::Pause() : sync::Yield();
  }
  if (!over()) {
    const absl::Duration start = clock_.Now();
    Wait wait(*this, target - 1);
    while (true) {
      const uint32_t seen = progress_.Prepare();
      const absl::Duration sleep =
          over() ? absl::ZeroDuration()
                 : options_.watch->OnStall(*member(peer).stream, clock_.Now() - start);
      if (over()) {
        progress_.Cancel();
        break;
      }
      progress_.Sleep(clock_, seen, sleep);
    }
  }
  if (!failed_.load(sync::kAcquire)) return absl::OkStatus();
  const absl::Status status = StatusOf(sequence);
  if (status.ok()) return status;
  const std::string message = absl::StrCat(status.message(), OnRank(peer));
  member(peer).stream->TakeBack(message);
  return MakeError(KindOf(status), message, RecentOf(status));
}

}  // namespace mp
