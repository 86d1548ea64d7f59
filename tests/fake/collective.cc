#include "tests/fake/collective.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake/fold.h"
#include "tests/fake/graph.h"

namespace mp::fake {

// One collective: the k-th launch of every rank.
struct Meeting {
  Collective what;
  uint64_t sequence = 0;
  uint64_t number = 0;  // of the machine, by the first launch
  std::vector<Member> members;
  size_t started = 0;
  size_t finished = 0;
  std::vector<char> result;
};

namespace {

class Kernel final : public Task {
 public:
  Kernel(Core& core, std::shared_ptr<RankState> state, std::shared_ptr<Meeting> meeting)
      : core_(core), state_(std::move(state)), meeting_(std::move(meeting)) {}

  std::string Name() const override {
    return absl::StrCat(meeting_->what.name, " ", meeting_->sequence, " of communicator ",
                        state_->clique->number, ", rank ", state_->rank, ",");
  }

  bool Ready() const override {
    if (state_->aborted) return true;
    if (!member().started) return occupant() == nullptr;
    return !core_.stalled && meeting_->started == state_->clique->size;
  }

  bool Run() override {
    if (state_->aborted) return Finish();
    if (!member().started) {
      member().started = true;
      occupant() = member().stream;
      if (++meeting_->started == state_->clique->size && !core_.stalled) FoldAll();
      return false;
    }
    if (meeting_->result.empty()) FoldAll();  // it had stood still
    if (member().recv != nullptr) {
      std::copy(meeting_->result.begin(), meeting_->result.end(), Checked(member().recv));
    }
    return Finish();
  }

  std::vector<Blocker> Blockers() const override {
    if (!member().started) return {{occupant(), "has no room on its device beside a kernel"}};
    std::vector<Blocker> blockers;
    if (core_.stalled) blockers.push_back({nullptr, "stands still, as the test wants it"});
    for (size_t rank = 0; rank < meeting_->members.size(); ++rank) {
      const Member& peer = meeting_->members[rank];
      if (peer.started) continue;
      blockers.push_back({peer.stream, absl::StrCat("waits for rank ", rank,
                                                    peer.stream ? ", which is queued"
                                                                : ", which has not launched it")});
    }
    return blockers;
  }

 private:
  Member& member() const { return meeting_->members[state_->rank]; }
  CUstream_st*& occupant() const { return core_.occupants[static_cast<size_t>(state_->device)]; }

  // The memory, or spare memory where it is not a live device buffer any more.
  char* Checked(const char* data) {
    if (core_.Find(data, meeting_->result.size()) != nullptr) return const_cast<char*>(data);
    core_.Report(absl::StrCat(Name(), " when it ran: a buffer that is not there"));
    spare_.resize(meeting_->result.size());
    return spare_.data();
  }

  // From another rank on each time: the order is nobody's business.
  void FoldAll() {
    const size_t n = state_->clique->size;
    const Collective& what = meeting_->what;
    meeting_->result.resize(what.count * SizeOf(what.type));
    std::vector<Operand> operands;
    for (size_t i = 0; i < n; ++i) {
      const Member& peer = meeting_->members[(i + meeting_->sequence) % n];
      operands.push_back({Checked(peer.send), peer.scale});
    }
    Fold(meeting_->result.data(), operands, what.count, what.type, what.op);
  }

  bool Finish() {
    if (occupant() == member().stream) occupant() = nullptr;
    --state_->outstanding;
    --core_.collectives;
    if (++meeting_->finished == state_->clique->size) {
      state_->clique->meetings.erase(meeting_->sequence);
    }
    return true;
  }

  Core& core_;
  std::shared_ptr<RankState> state_;
  std::shared_ptr<Meeting> meeting_;
  std::vector<char> spare_;
};

// How many launches of a device are remembered.
constexpr size_t kRemembered = 64;

// The devices must get the collectives that they share in one order, whatever communicators those
// are of: each device runs one at a time.
void CheckOrder(Core& core, const Launch& launch, uint64_t number) {
  auto& here = core.launched[static_cast<size_t>(launch.state->device)];
  const bool behind_a_later_one =
      std::any_of(here.begin(), here.end(), [number](uint64_t other) { return other > number; });
  for (size_t device = 0; behind_a_later_one && device < core.launched.size(); ++device) {
    const auto& there = core.launched[device];
    const auto at = std::find(there.begin(), there.end(), number);
    for (auto after = at; after != there.end(); ++after) {
      if (after == at || std::find(here.begin(), here.end(), *after) == here.end()) continue;
      core.Report(absl::StrCat(launch.what.name, " ", launch.state->launches, " of communicator ",
                               launch.state->clique->number, ": devices ", launch.state->device,
                               " and ", device, " get it and another one in different orders"));
      device = core.launched.size();
      break;
    }
  }
  here.push_back(number);
  if (here.size() > kRemembered) here.pop_front();
}

// The kernel of the rank's next collective, on this stream.
std::unique_ptr<Task> NewKernel(Core& core, const Launch& launch, CUstream_st* stream) {
  RankState& state = *launch.state;
  if (IsGone(core, launch.what.name, state)) {
    return std::make_unique<Action>(launch.what.name, [] {});
  }
  std::shared_ptr<Meeting>& meeting = state.clique->meetings[state.launches];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
    meeting->what = launch.what;
    meeting->sequence = state.launches;
    meeting->number = ++core.meetings;
    meeting->members.resize(state.clique->size);
  } else if (!(meeting->what == launch.what)) {
    core.Report(absl::StrCat(launch.what.name, " ", state.launches, " of communicator ",
                             state.clique->number, ": rank ", state.rank, " differs from a peer"));
  }
  CheckOrder(core, launch, meeting->number);
  ++state.launches;
  ++state.outstanding;
  ++core.collectives;
  meeting->members[state.rank] = launch.member;
  meeting->members[state.rank].stream = stream;
  return std::make_unique<Kernel>(core, launch.state, meeting);
}

}  // namespace

bool IsGone(Core& core, const std::string& name, const RankState& state) {
  if (!state.released) return false;
  core.Report(absl::StrCat(name, " in a graph: communicator ", state.clique->number, " is gone"));
  return true;
}

cudaError_t Start(Core& core, const Launch& launch) {
  CUstream_st* stream = launch.member.stream;
  const auto make = [&core, launch](CUstream_st* on) { return NewKernel(core, launch, on); };
  if (stream->capture != nullptr) return Record(*stream, make);
  core.Enqueue(stream, make(stream));
  return cudaSuccess;
}

}  // namespace mp::fake
