// The functions of NCCL that mp calls, over the fake machine, defined against the real header.
//
// A call inside a group does nothing before the group ends.  A collective is one kernel on each
// rank: it starts when its stream comes to it and its device has room, and is done when all have
// started. The k-th launch of a rank meets the k-th of the others; nothing but a Finding tells when
// they are not the same operation.
#include <nccl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake/core.h"
#include "tests/fake/fold.h"

namespace mp::fake {
namespace {

// One rank's part in a collective.
struct Member {
  const char* send = nullptr;
  char* recv = nullptr;
  CUstream_st* stream = nullptr;  // null before the rank launches
  bool started = false;
};

// One collective: the k-th launch of every rank.
struct Meeting {
  std::string what;
  uint64_t sequence = 0;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  std::vector<Member> members;
  size_t started = 0;
  size_t finished = 0;
  std::vector<char> result;
};

struct Clique {
  int number = 0;
  size_t size = 0;
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
};

// What outlives a communicator until its kernels are done.
struct RankState {
  std::shared_ptr<Clique> clique;
  size_t rank = 0;
  int device = 0;
  uint64_t launches = 0;
  int outstanding = 0;
  bool aborted = false;
};

class Kernel final : public Task {
 public:
  Kernel(Core& core, std::shared_ptr<RankState> state, std::shared_ptr<Meeting> meeting)
      : core_(core), state_(std::move(state)), meeting_(std::move(meeting)) {}

  std::string Name() const override {
    return absl::StrCat(meeting_->what, " ", meeting_->sequence, " of communicator ",
                        state_->clique->number, ", rank ", state_->rank, ",");
  }

  bool Ready() const override {
    if (state_->aborted) return true;
    return member().started ? meeting_->started == state_->clique->size : occupant() == nullptr;
  }

  bool Run() override {
    if (state_->aborted) return Finish();
    if (!member().started) {
      member().started = true;
      occupant() = member().stream;
      if (++meeting_->started == state_->clique->size) Fold();
      return false;
    }
    std::copy(meeting_->result.begin(), meeting_->result.end(), Checked(member().recv));
    return Finish();
  }

  std::vector<Blocker> Blockers() const override {
    if (!member().started) return {{occupant(), "has no room on its device beside a kernel"}};
    std::vector<Blocker> blockers;
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
  void Fold() {
    const size_t n = state_->clique->size;
    meeting_->result.resize(meeting_->count * SizeOf(meeting_->type));
    for (size_t i = 0; i < n; ++i) {
      const char* input = Checked(meeting_->members[(i + meeting_->sequence) % n].send);
      if (i == 0) {
        std::copy_n(input, meeting_->result.size(), meeting_->result.data());
      } else {
        FoldInto(meeting_->result.data(), input, meeting_->count, meeting_->type, meeting_->op);
      }
    }
  }

  bool Finish() {
    if (occupant() == member().stream) occupant() = nullptr;
    --state_->outstanding;
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

struct Launch {
  ncclComm_t comm;
  Member member;
  std::string what;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
};

// The group of the calling thread.
thread_local int depth = 0;
thread_local std::vector<Launch> group;
thread_local ncclResult_t group_result = ncclSuccess;
thread_local std::string last_error;

ncclResult_t Refuse(Core* core, ncclResult_t result, const std::string& why) {
  last_error = why;
  if (core != nullptr) core->Report(why);
  if (depth > 0 && group_result == ncclSuccess) group_result = result;
  return result;
}

}  // namespace
}  // namespace mp::fake

struct ncclComm {
  std::shared_ptr<mp::fake::RankState> state;
};

namespace mp::fake {
namespace {

void Start(Core& core, const Launch& launch) {
  RankState& state = *launch.comm->state;
  std::shared_ptr<Meeting>& meeting = state.clique->meetings[state.launches];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
    meeting->what = launch.what;
    meeting->sequence = state.launches;
    meeting->count = launch.count;
    meeting->type = launch.type;
    meeting->op = launch.op;
    meeting->members.resize(state.clique->size);
  } else if (meeting->count != launch.count || meeting->type != launch.type ||
             meeting->op != launch.op) {
    core.Report(absl::StrCat(launch.what, " ", state.launches, " of communicator ",
                             state.clique->number, ": rank ", state.rank, " differs from a peer"));
  }
  ++state.launches;
  ++state.outstanding;
  meeting->members[state.rank] = launch.member;
  core.Enqueue(launch.member.stream, std::make_unique<Kernel>(core, launch.comm->state, meeting));
}

// The calling thread enters NCCL with a communicator of this device.
void Occupy(Core& core, int device) {
  std::thread::id& owner = core.nccl_threads[static_cast<size_t>(device)];
  if (owner != std::thread::id() && owner != std::this_thread::get_id()) {
    core.Report(absl::StrCat("two threads inside NCCL for device ", device));
  }
  owner = std::this_thread::get_id();
}

ncclResult_t EndGroup(Core& core) {
  const ncclResult_t result = std::exchange(group_result, ncclSuccess);
  for (const Launch& launch : std::exchange(group, {})) {
    core.nccl_threads[static_cast<size_t>(launch.comm->state->device)] = std::thread::id();
    if (result == ncclSuccess) Start(core, launch);
  }
  return result;
}

std::string Fault(const Core& core, ncclComm_t comm, const void* data, size_t bytes) {
  const Allocation* found = core.Find(data, bytes);
  if (found == nullptr) return "no device memory of this size";
  if (found->device != comm->state->device) return absl::StrCat("on device ", found->device);
  return "";
}

void Release(Core& core, ncclComm_t comm) {
  core.communicators.erase(comm);
  delete comm;
}

}  // namespace
}  // namespace mp::fake

using mp::fake::Core;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "an error of the fake";
  }
}

const char* ncclGetLastError(ncclComm_t) { return mp::fake::last_error.c_str(); }

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  Core* core = Core::Current();
  if (core == nullptr) return mp::fake::Refuse(core, ncclUnhandledCudaError, "no driver");
  std::lock_guard<std::mutex> lock(core->mutex);
  if (mp::fake::depth > 0) {
    return mp::fake::Refuse(core, ncclInvalidUsage, "ncclCommInitAll inside a group");
  }
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= core->options.devices) {
      return mp::fake::Refuse(core, ncclInvalidArgument, "ncclCommInitAll: no such device");
    }
    if (std::find(devices, devices + i, devices[i]) != devices + i) {
      return mp::fake::Refuse(core, ncclInvalidUsage, "ncclCommInitAll: duplicate device");
    }
  }
  static int next = 0;  // guarded by the machine's lock
  auto clique = std::make_shared<mp::fake::Clique>();
  clique->number = ++next;
  clique->size = static_cast<size_t>(count);
  for (int i = 0; i < count; ++i) {
    auto state = std::make_shared<mp::fake::RankState>();
    state->clique = clique;
    state->rank = static_cast<size_t>(i);
    state->device = devices[i];
    comms[i] = new ncclComm{state};
    core->communicators.insert(comms[i]);
  }
  // NCCL leaves another device current than it found.
  core->thread().device = devices[count - 1];
  return ncclSuccess;
}

// Waits for the communicator's kernels.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Core* core = Core::Current();
  if (core == nullptr) return ncclUnhandledCudaError;
  std::unique_lock<std::mutex> lock(core->mutex);
  if (core->communicators.count(comm) == 0) {
    return mp::fake::Refuse(core, ncclInvalidArgument, "ncclCommDestroy: no such communicator");
  }
  const bool done = core->WaitUntil(lock, [comm] { return comm->state->outstanding == 0; });
  mp::fake::Release(*core, comm);
  return done ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Core* core = Core::Current();
  if (core == nullptr) return ncclUnhandledCudaError;
  std::lock_guard<std::mutex> lock(core->mutex);
  if (core->communicators.count(comm) == 0) {
    return mp::fake::Refuse(core, ncclInvalidArgument, "ncclCommAbort: no such communicator");
  }
  comm->state->aborted = true;
  core->Changed();
  mp::fake::Release(*core, comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++mp::fake::depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  Core* core = Core::Current();
  if (core == nullptr) return ncclUnhandledCudaError;
  std::lock_guard<std::mutex> lock(core->mutex);
  if (mp::fake::depth == 0) {
    return mp::fake::Refuse(core, ncclInvalidUsage, "ncclGroupEnd without a start");
  }
  return --mp::fake::depth == 0 ? mp::fake::EndGroup(*core) : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  Core* core = Core::Current();
  if (core == nullptr) return ncclUnhandledCudaError;
  std::lock_guard<std::mutex> lock(core->mutex);
  if (core->sticky != cudaSuccess) return ncclUnhandledCudaError;
  const auto refuse = [core](const std::string& why) {
    return mp::fake::Refuse(core, ncclInvalidArgument, absl::StrCat("ncclAllReduce: ", why));
  };
  if (core->communicators.count(comm) == 0) return refuse("no such communicator");
  if (core->streams.count(stream) == 0) return refuse("no such stream");
  if (stream->device != comm->state->device) return refuse("a stream of another device");
  if (!mp::fake::IsModelled(type, op)) return refuse("type or operation not modelled");
  if (count == 0) return ncclSuccess;  // silently nothing, as in NCCL
  const size_t bytes = count * mp::fake::SizeOf(type);
  for (const void* data : {send, static_cast<const void*>(recv)}) {
    const std::string fault = mp::fake::Fault(*core, comm, data, bytes);
    if (!fault.empty()) return refuse(absl::StrCat("buffer: ", fault));
  }
  mp::fake::Occupy(*core, comm->state->device);
  mp::fake::Member member;
  member.send = static_cast<const char*>(send);
  member.recv = static_cast<char*>(recv);
  member.stream = stream;
  mp::fake::group.push_back({comm, member, "AllReduce", count, type, op});
  return mp::fake::depth > 0 ? ncclSuccess : mp::fake::EndGroup(*core);
}

}  // extern "C"
