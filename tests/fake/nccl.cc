// The functions of NCCL that mp calls, over the fake machine, defined against the real header.
//
// A call inside a group does nothing before the group ends.  Communicators are made, split, and
// ended in groups of their own; those that were made together are only gone when all have been
// destroyed or aborted.
#include <nccl.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake/collective.h"
#include "tests/fake/core.h"
#include "tests/fake/fold.h"
#include "tests/fake/inside.h"
#include "tests/fake/transfer.h"

struct ncclComm {
  std::shared_ptr<mp::fake::RankState> state;
};

namespace mp::fake {
namespace {

struct SplitCall {
  ncclComm_t comm;
  int color;
  int key;
  ncclComm_t* made;
};

struct End {
  ncclComm_t comm;
  bool abort;
};

// The group of a thread.
struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;
  std::vector<Launch> launches;
  std::vector<PostsOfRank> posts;
  std::vector<SplitCall> splits;
  std::vector<End> ends;
};
thread_local Group group;
thread_local std::string last_error;

ncclResult_t Refuse(Core* core, ncclResult_t result, const std::string& why) {
  last_error = why;
  if (core != nullptr) core->Report(why);
  if (group.depth > 0 && group.result == ncclSuccess) group.result = result;
  return result;
}

// A call of an NCCL function, for as long as it runs: holds the machine's lock.
class NcclCall {
 public:
  explicit NcclCall(const char* name) : core_(Core::Current()), name_(name) {
    if (core_ == nullptr) return;
    lock_ = std::unique_lock<std::mutex>(core_->mutex);
    ruling_ = core_->CountCall(name, lock_);
    core_->thread().open = ruling_.late;
    result_ = static_cast<ncclResult_t>(ruling_.result);
    if (result_ == ncclSuccess && core_->sticky != cudaSuccess) result_ = ncclUnhandledCudaError;
    if (result_ != ncclSuccess) last_error = absl::StrCat(name, " of the fake");
    if (result_ != ncclSuccess && group.depth > 0) group.result = result_;
  }
  ~NcclCall() {
    if (!lock_.owns_lock()) return;
    core_->thread().open = nullptr;
    if (ruling_.leave_device >= 0) core_->thread().device = ruling_.leave_device;
  }
  NcclCall(const NcclCall&) = delete;
  NcclCall& operator=(const NcclCall&) = delete;

  // What the function answers before it looks at its arguments.
  ncclResult_t Begin() const { return core_ == nullptr ? ncclUnhandledCudaError : result_; }
  // Whether it ends with that.
  bool Answered() const { return Begin() != ncclSuccess || ruling_.lies; }
  ncclResult_t Refuse(ncclResult_t result, const std::string& why) const {
    return fake::Refuse(core_, result, absl::StrCat(name_, ": ", why));
  }
  bool Knows(ncclComm_t comm) const { return core_->communicators.count(comm) > 0; }
  Core& core() const { return *core_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Inside inside_;
  Core* core_;
  const char* name_;
  std::unique_lock<std::mutex> lock_;
  Ruling ruling_;
  ncclResult_t result_ = ncclSuccess;
};

// The calling thread enters NCCL with a communicator of this device.
void Occupy(Core& core, int device) {
  std::thread::id& owner = core.nccl_threads[static_cast<size_t>(device)];
  if (owner != std::thread::id() && owner != std::this_thread::get_id()) {
    core.Report(absl::StrCat("two threads inside NCCL for device ", device));
  }
  owner = std::this_thread::get_id();
}

// Communicators of these devices, one after the other.
std::vector<ncclComm_t> Make(Core& core, const std::vector<int>& devices) {
  static int next = 0;  // guarded by the machine's lock
  auto clique = std::make_shared<Clique>();
  clique->number = ++next;
  clique->size = devices.size();
  std::vector<ncclComm_t> made;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    auto state = std::make_shared<RankState>();
    state->clique = clique;
    state->rank = rank;
    state->device = devices[rank];
    made.push_back(new ncclComm{state});
    core.communicators.insert(made.back());
    ++core.live_communicators;
  }
  return made;
}

ncclResult_t SplitAll(NcclCall& call, const std::vector<SplitCall>& splits) {
  const std::shared_ptr<Clique> parent = splits[0].comm->state->clique;
  std::map<int, std::vector<SplitCall>> colors;
  for (const SplitCall& split : splits) {
    if (split.comm->state->clique != parent) {
      return call.Refuse(ncclInvalidUsage, "a group splits two parents");
    }
    *split.made = nullptr;
    if (split.color != NCCL_SPLIT_NOCOLOR) colors[split.color].push_back(split);
  }
  if (splits.size() != parent->size) {
    return call.Refuse(ncclInvalidUsage, "not all ranks of the parent split");
  }
  if (!parent->meetings.empty() || !parent->transfers.empty()) {
    return call.Refuse(ncclInvalidUsage, "a parent with collectives that are not done is split");
  }
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end(), [](const SplitCall& a, const SplitCall& b) {
      return std::pair(a.key, a.comm->state->rank) < std::pair(b.key, b.comm->state->rank);
    });
    std::vector<int> devices;
    for (const SplitCall& member : members) devices.push_back(member.comm->state->device);
    const std::vector<ncclComm_t> made = Make(call.core(), devices);
    for (size_t i = 0; i < made.size(); ++i) *members[i].made = made[i];
  }
  return ncclSuccess;
}

// Destroying waits for the communicator's kernels, aborting ends them.
ncclResult_t EndAll(NcclCall& call, const std::vector<End>& ends) {
  Core& core = call.core();
  for (const End& end : ends) {
    core.communicators.erase(end.comm);
    end.comm->state->released = true;
    if (end.abort) end.comm->state->aborted = true;
  }
  core.Changed();
  bool done = true;
  for (const End& end : ends) {
    RankState& state = *end.comm->state;
    if (!end.abort) {
      done = core.WaitUntil(call.lock(), [&state] { return state.outstanding == 0; }) && done;
    }
    if (++state.clique->released == state.clique->size) {
      core.live_communicators -= static_cast<int64_t>(state.clique->size);
    }
    delete end.comm;
  }
  return done ? ncclSuccess : ncclUnhandledCudaError;
}

// A group that fails at its end may have launched some of its ranks.
ncclResult_t EndGroup(NcclCall& call) {
  Core& core = call.core();
  const Group ended = std::exchange(group, {});
  const bool launches = !ended.launches.empty() || !ended.posts.empty();
  const auto leave = [&core](const RankState& state) {
    core.nccl_threads[static_cast<size_t>(state.device)] = std::thread::id();
  };
  for (const Launch& launch : ended.launches) leave(*launch.state);
  for (const PostsOfRank& posts : ended.posts) leave(*posts.state);
  if (launches + !ended.splits.empty() + !ended.ends.empty() > 1) {
    return call.Refuse(ncclInvalidUsage, "a group mixes collectives with what makes communicators");
  }
  ncclResult_t result = call.Begin() != ncclSuccess ? call.Begin() : ended.result;
  const size_t all = ended.launches.size() + ended.posts.size();
  const size_t count = call.Begin() == ncclSuccess  ? (call.Answered() ? 0 : all)
                       : core.sticky == cudaSuccess ? all / 2
                                                    : 0;
  const std::shared_ptr<const bool> open = core.thread().open;
  for (size_t i = 0; ended.result == ncclSuccess && i < count; ++i) {
    const bool is_post = i >= ended.launches.size();
    const PostsOfRank* posts = is_post ? &ended.posts[i - ended.launches.size()] : nullptr;
    CUstream_st* stream = is_post ? posts->stream : ended.launches[i].member.stream;
    core.thread().open = open != nullptr ? open : is_post ? posts->open : ended.launches[i].open;
    const bool started =
        (stream->capture != nullptr || core.AwaitRoom(call.lock(), stream)) &&
        (is_post ? Start(core, *posts) : Start(core, ended.launches[i])) == cudaSuccess;
    if (!started) result = ncclUnhandledCudaError;
  }
  if (result == ncclSuccess && !ended.splits.empty()) result = SplitAll(call, ended.splits);
  if (!ended.ends.empty()) {
    const ncclResult_t end = EndAll(call, ended.ends);
    if (result == ncclSuccess) result = end;
  }
  return result;
}

ncclResult_t EndGroupIfAlone(NcclCall& call) {
  return group.depth > 0 ? ncclSuccess : EndGroup(call);
}

std::string Fault(const Core& core, ncclComm_t comm, const void* data, size_t bytes) {
  const Allocation* found = core.Find(data, bytes);
  if (found == nullptr) return "no device memory of this size";
  if (found->device != comm->state->device) return absl::StrCat("on device ", found->device);
  return "";
}

ncclResult_t Collect(NcclCall& call, Collective what, const void* send, void* recv, ncclComm_t comm,
                     cudaStream_t stream) {
  if (call.Answered()) return call.Begin();
  Core& core = call.core();
  const auto refuse = [&](const std::string& why) { return call.Refuse(ncclInvalidArgument, why); };
  if (!call.Knows(comm)) return refuse("no such communicator");
  RankState& state = *comm->state;
  if (core.streams.count(stream) == 0) return refuse("no such stream");
  if (stream->device != state.device) return refuse("a stream of another device");
  Member member;
  if (what.op >= ncclNumOps) {
    const auto found = state.scales.find(static_cast<int>(what.op));
    if (found == state.scales.end() || found->second.first != what.type) {
      return refuse("no such operation of this communicator and type");
    }
    member.scale = found->second.second;
    what.op = ncclSum;
  }
  if (!IsModelled(what.type, what.op)) return refuse("type or operation not modelled");
  if (what.root >= static_cast<int>(state.clique->size)) return refuse("no such root");
  if (what.count == 0) return ncclSuccess;  // silently nothing, as in NCCL
  core.largest_count = std::max(core.largest_count, what.count);
  const bool receives = what.root < 0 || what.root == static_cast<int>(state.rank);
  const size_t bytes = what.count * SizeOf(what.type);
  std::string fault = Fault(core, comm, send, bytes);
  if (fault.empty() && receives) fault = Fault(core, comm, recv, bytes);
  if (!fault.empty()) return refuse(absl::StrCat("buffer: ", fault));
  Occupy(core, state.device);
  member.send = static_cast<const char*>(send);
  member.recv = receives ? static_cast<char*>(recv) : nullptr;
  member.stream = stream;
  group.launches.push_back({core.thread().open, comm->state, std::move(what), member});
  return EndGroupIfAlone(call);
}

// Adds to what the rank sends and receives in this group.
ncclResult_t Exchange(NcclCall& call, bool sends, const void* data, size_t count,
                      ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (call.Answered()) return call.Begin();
  Core& core = call.core();
  const auto refuse = [&](const std::string& why) { return call.Refuse(ncclInvalidArgument, why); };
  if (!call.Knows(comm)) return refuse("no such communicator");
  RankState& state = *comm->state;
  if (core.streams.count(stream) == 0) return refuse("no such stream");
  if (stream->device != state.device) return refuse("a stream of another device");
  if (!IsModelled(type, ncclSum)) return refuse("type not modelled");
  if (peer < 0 || static_cast<size_t>(peer) >= state.clique->size) return refuse("no such peer");
  core.largest_count = std::max(core.largest_count, count);
  const size_t bytes = count * SizeOf(type);
  const std::string fault = bytes == 0 ? "" : Fault(core, comm, data, bytes);
  if (!fault.empty()) return refuse(absl::StrCat("buffer: ", fault));
  Occupy(core, state.device);
  auto found = std::find_if(group.posts.begin(), group.posts.end(),
                            [&](const PostsOfRank& it) { return it.state == comm->state; });
  if (found == group.posts.end()) {
    group.posts.push_back({core.thread().open, comm->state, stream, {}});
    found = std::prev(group.posts.end());
  }
  if (found->stream != stream) return refuse("a rank's group on two streams: not modelled");
  found->posts.push_back(
      {sends, static_cast<char*>(const_cast<void*>(data)), bytes, static_cast<size_t>(peer)});
  return EndGroupIfAlone(call);
}

ncclResult_t EndOne(NcclCall& call, ncclComm_t comm, bool abort) {
  // Resources are given back also on a machine that is broken.
  if (Core::Current() == nullptr) return ncclUnhandledCudaError;
  if (!call.Knows(comm)) return call.Refuse(ncclInvalidArgument, "no such communicator");
  group.ends.push_back({comm, abort});
  return EndGroupIfAlone(call);
}

}  // namespace
}  // namespace mp::fake

using mp::fake::Core;
using mp::fake::NcclCall;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote error";
    default:
      return "an error of the fake";
  }
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  Core* core = Core::Current();
  if (core == nullptr) return ncclSuccess;
  std::unique_lock<std::mutex> lock(core->mutex);
  return static_cast<ncclResult_t>(core->CountCall("ncclGetVersion", lock).result);
}

const char* ncclGetLastError(ncclComm_t) { return mp::fake::last_error.c_str(); }

// Communicators ----------------------------------------------------------------------------------

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  NcclCall call("ncclCommInitAll");
  if (call.Answered()) return call.Begin();
  if (mp::fake::group.depth > 0) return call.Refuse(ncclInvalidUsage, "inside a group");
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= call.core().options.devices) {
      return call.Refuse(ncclInvalidArgument, "no such device");
    }
    if (std::find(devices, devices + i, devices[i]) != devices + i) {
      return call.Refuse(ncclInvalidUsage, "duplicate device");
    }
  }
  const std::vector<ncclComm_t> made = mp::fake::Make(call.core(), {devices, devices + count});
  std::copy(made.begin(), made.end(), comms);
  // NCCL leaves another device current than it found.
  call.core().thread().device = devices[count - 1];
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  NcclCall call("ncclCommSplit");
  if (call.Answered()) return call.Begin();
  if (!call.Knows(comm)) return call.Refuse(ncclInvalidArgument, "no such communicator");
  if (config != nullptr) return call.Refuse(ncclInvalidArgument, "a configuration: not modelled");
  mp::fake::group.splits.push_back({comm, color, key, made});
  call.core().thread().device = comm->state->device;
  return mp::fake::EndGroupIfAlone(call);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  NcclCall call("ncclCommDestroy");
  return mp::fake::EndOne(call, comm, false);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NcclCall call("ncclCommAbort");
  return mp::fake::EndOne(call, comm, true);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  NcclCall call("ncclCommGetAsyncError");
  if (call.Answered()) return call.Begin();
  if (!call.Knows(comm)) return call.Refuse(ncclInvalidArgument, "no such communicator");
  *error = static_cast<ncclResult_t>(call.core().nccl_error);
  return ncclSuccess;
}

// Groups -----------------------------------------------------------------------------------------

ncclResult_t ncclGroupStart() {
  NcclCall call("ncclGroupStart");
  if (call.Answered()) return call.Begin();
  ++mp::fake::group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  NcclCall call("ncclGroupEnd");
  if (Core::Current() == nullptr) return ncclUnhandledCudaError;
  if (mp::fake::group.depth == 0) return call.Refuse(ncclInvalidUsage, "without a start");
  return --mp::fake::group.depth == 0 ? mp::fake::EndGroup(call) : ncclSuccess;
}

// Collectives ------------------------------------------------------------------------------------

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclAllReduce");
  return mp::fake::Collect(call, {"AllReduce", count, type, op}, send, recv, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclReduce");
  if (root < 0) return call.Refuse(ncclInvalidArgument, "no such root");
  return mp::fake::Collect(call, {"Reduce", count, type, op, root}, send, recv, comm, stream);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclSend");
  return mp::fake::Exchange(call, true, data, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  NcclCall call("ncclRecv");
  return mp::fake::Exchange(call, false, data, count, type, peer, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  NcclCall call("ncclRedOpCreatePreMulSum");
  if (call.Answered()) return call.Begin();
  if (!call.Knows(comm)) return call.Refuse(ncclInvalidArgument, "no such communicator");
  const bool floats =
      type == ncclFloat64 || type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16;
  if (residence != ncclScalarHostImmediate || !floats) {
    return call.Refuse(ncclInvalidArgument, "not modelled");
  }
  auto& scales = comm->state->scales;
  const int id = scales.empty() ? static_cast<int>(ncclNumOps) : scales.rbegin()->first + 1;
  scales[id] = {type, mp::fake::Decode(scalar, type)};
  *op = static_cast<ncclRedOp_t>(id);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  NcclCall call("ncclRedOpDestroy");
  if (call.Answered()) return call.Begin();
  if (!call.Knows(comm)) return call.Refuse(ncclInvalidArgument, "no such communicator");
  if (comm->state->scales.erase(static_cast<int>(op)) == 0) {
    return call.Refuse(ncclInvalidArgument, "no such operation");
  }
  return ncclSuccess;
}

}  // extern "C"
