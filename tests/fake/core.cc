#include "tests/fake/core.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mp::fake {
namespace {

std::atomic<Core*> current{nullptr};
std::atomic<uint64_t> next_id{1};
thread_local ThreadState thread_state;
thread_local bool in_task = false;

// Filled into memory that is fresh, and into memory that is freed.
constexpr int kFresh = 0xA5;
constexpr int kFreed = 0xDB;

// Not filled: pages from here on are only there once they are used.
constexpr size_t kSparseBytes = size_t{1} << 30;

// Stands in front of what is late.
class Hold final : public Task {
 public:
  explicit Hold(std::shared_ptr<const bool> open) : open_(std::move(open)) {}
  std::string Name() const override { return "what follows"; }
  bool Ready() const override { return *open_; }
  bool Run() override { return true; }
  std::vector<Blocker> Blockers() const override {
    return {{nullptr, "is late, as the test wants it"}};
  }

 private:
  const std::shared_ptr<const bool> open_;
};

std::string List(const std::string& title, const std::vector<std::string>& lines) {
  return absl::StrCat(title, ":\n  ", absl::StrJoin(lines, "\n  "));
}

}  // namespace

Allocation NewAllocation(int device, size_t bytes) {
  void* memory = nullptr;
  if (bytes >= kSparseBytes) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return {};
    const auto unmap = [bytes](void* gone) { munmap(gone, bytes); };
    return {device, bytes, static_cast<char*>(memory), std::shared_ptr<void>(memory, unmap)};
  }
  if (posix_memalign(&memory, 256, bytes) != 0) return {};
  std::memset(memory, kFresh, bytes);
  return {device, bytes, static_cast<char*>(memory), std::shared_ptr<void>(memory, std::free)};
}

Core* Core::Current() { return current.load(); }

ThreadState& Core::thread() {
  if (thread_state.machine != id_) thread_state = {.machine = id_};
  return thread_state;
}

bool Core::InTask() { return in_task; }

Core::Core(const Options& with)
    : options(with),
      default_pools(static_cast<size_t>(with.devices)),
      occupants(static_cast<size_t>(with.devices), nullptr),
      nccl_threads(static_cast<size_t>(with.devices)),
      launched(static_cast<size_t>(with.devices)),
      id_(next_id.fetch_add(1)),
      random_(with.seed) {
  Core* none = nullptr;
  if (!current.compare_exchange_strong(none, this)) {
    std::fprintf(stderr, "two fake machines at a time\n");
    std::abort();
  }
  scheduler_ = std::thread([this] { Schedule(); });
}

Core::~Core() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop_ = true;
    work_.notify_all();
  }
  scheduler_.join();
  for (std::thread& thread : beside_) thread.join();
  current.store(nullptr);
}

Ruling Core::CountCall(const std::string& name, std::unique_lock<std::mutex>& lock) {
  const int64_t number = ++calls[name];
  Ruling ruling;
  const auto gate = [this] { return gates.emplace_back(std::make_shared<bool>(false)); };
  const auto [begin, end] = knobs.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    const Knob& knob = it->second;
    if (knob.kind == Knob::Kind::kFailFromHere && number >= knob.call) ruling.result = knob.value;
    if (number != knob.call) continue;
    if (knob.kind == Knob::Kind::kFail) ruling.result = knob.value;
    if (knob.kind == Knob::Kind::kStall) ruling.stalls = gate();
    if (knob.kind == Knob::Kind::kLate) ruling.late = gate();
    if (knob.kind == Knob::Kind::kLie) ruling.lies = true;
    if (knob.kind == Knob::Kind::kLeaveDevice) ruling.leave_device = knob.value;
  }
  if (ruling.stalls != nullptr) WaitUntil(lock, [&ruling] { return *ruling.stalls; });
  return ruling;
}

bool Core::AwaitRoom(std::unique_lock<std::mutex>& lock, CUstream_st* stream) {
  return WaitUntil(lock, [&] { return stream->queue.size() < options.launch_queue; });
}

bool Core::Knows(CUmemPoolHandle_st* pool) const {
  return pools.count(pool) > 0 ||
         std::any_of(default_pools.begin(), default_pools.end(),
                     [pool](const auto& it) { return it != nullptr && it.get() == pool; });
}

void Core::Forget(const std::string& name, const char* address) {
  const auto found = allocations.find(address);
  if (found == allocations.end()) return Report(name + ": of memory that is gone");
  const Allocation allocation = found->second;
  allocations.erase(found);
  if (allocation.memory.use_count() > 1) {
    Report(name + ": of memory that a kernel of a peer runs on");
  } else if (allocation.bytes < kSparseBytes) {
    std::memset(allocation.data, kFreed, allocation.bytes);
  }
}

void Core::Enqueue(CUstream_st* stream, std::unique_ptr<Task> task) {
  if (thread().open != nullptr) stream->queue.push_back(std::make_unique<Hold>(thread().open));
  stream->queue.push_back(std::move(task));
  Changed();
}

void Core::Changed() {
  ++changes_;
  work_.notify_all();
}

void Core::RunBeside(std::function<void()> run) {
  const auto over = [this](std::thread& thread) {
    const auto found = std::find(finished_.begin(), finished_.end(), thread.get_id());
    if (found == finished_.end()) return false;
    finished_.erase(found);
    thread.join();
    return true;
  };
  beside_.erase(std::remove_if(beside_.begin(), beside_.end(), over), beside_.end());
  beside_.emplace_back([this, run = std::move(run)]() mutable {
    in_task = true;
    run();
    run = nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    finished_.push_back(std::this_thread::get_id());
  });
}

void Core::Wake() { moved_.notify_all(); }

void Core::Poke() {
  credit_ += 1 + static_cast<int64_t>(Choose(4));
  work_.notify_all();
}

bool Core::WaitUntil(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  ++waiters_;
  work_.notify_all();
  moved_.wait(lock, [&] { return sticky != cudaSuccess || done(); });
  --waiters_;
  return sticky == cudaSuccess;
}

bool Core::IsIdle(int device) const {
  return std::all_of(all_streams_.begin(), all_streams_.end(), [device](const auto& stream) {
    if (stream->device == device) return stream->queue.empty();
    return std::none_of(stream->queue.begin(), stream->queue.end(),
                        [device](const auto& task) { return task->RunsOn(device); });
  });
}

const Allocation* Core::Find(const void* data, size_t bytes) const {
  const auto* first = static_cast<const char*>(data);
  auto next = allocations.upper_bound(first);
  if (next == allocations.begin()) return nullptr;
  const Allocation& allocation = std::prev(next)->second;
  const auto offset = static_cast<size_t>(first - allocation.data);
  return offset <= allocation.bytes && bytes <= allocation.bytes - offset ? &allocation : nullptr;
}

std::string Core::Unreachable(int device, const void* data, size_t bytes) const {
  const Allocation* found = Find(data, bytes);
  if (found == nullptr && Find(data, 1) != nullptr) return "beyond its allocation";
  if (found == nullptr) return "not device memory";
  if (!found->there) return "not yet allocated in its stream";
  const bool reached = found->pool != nullptr ? found->pool->reachable_from.count(device) > 0
                                              : peers.count({device, found->device}) > 0;
  if (found->device == device || reached) return "";
  return absl::StrCat("on device ", found->device, ", which device ", device, " has no access to");
}

size_t Core::queued() const {
  size_t sum = 0;
  for (const auto& stream : all_streams_) sum += stream->queue.size();
  return sum;
}

CUstream_st* Core::Adopt(std::unique_ptr<CUstream_st> stream) {
  all_streams_.push_back(std::move(stream));
  streams.insert(all_streams_.back().get());
  return all_streams_.back().get();
}

size_t Core::Choose(size_t bound) { return static_cast<size_t>(random_() % bound); }

std::vector<CUstream_st*> Core::Heads(bool ready) const {
  std::vector<CUstream_st*> heads;
  for (const auto& stream : all_streams_) {
    if (!stream->queue.empty() && stream->queue.front()->Ready() == ready) {
      heads.push_back(stream.get());
    }
  }
  return heads;
}

void Core::Schedule() {
  in_task = true;
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop_) {
    if (sticky != cudaSuccess) Drop();
    const std::vector<CUstream_st*> ready = Heads(true);
    if (ready.empty()) {
      const std::vector<CUstream_st*> blocked = Heads(false);
      if (blocked.empty()) {
        work_.wait(lock);
        continue;
      }
      if (const auto lines = Deadlocked(blocked); !lines.empty()) {
        Fault(cudaErrorLaunchTimeout, List("never ends", lines));
        continue;
      }
      const uint64_t before = changes_;
      const auto limit = absl::ToChronoMilliseconds(options.stall_limit);
      const bool woken = work_.wait_for(lock, limit, [&] { return stop_ || changes_ != before; });
      if (!woken) {
        std::vector<std::string> reasons;
        for (CUstream_st* stream : blocked) {
          const Task& head = *stream->queue.front();
          for (const Blocker& blocker : head.Blockers()) {
            reasons.push_back(absl::StrCat(stream->Name(), ": ", head.Name(), " ", blocker.why));
          }
        }
        Fault(cudaErrorLaunchTimeout, List("nothing moves", reasons));
      }
      continue;
    }
    const bool eager = options.seed % 2 == 1 || waiters_ > 0;
    if (!eager && credit_ == 0) {
      work_.wait(lock);
      continue;
    }
    if (credit_ > 0) --credit_;
    CUstream_st* stream = ready[Choose(ready.size())];
    Task& task = *stream->queue.front();
    if (task.Run()) stream->queue.pop_front();
    const auto gone = [](const auto& it) { return it->destroyed && it->queue.empty(); };
    all_streams_.erase(std::remove_if(all_streams_.begin(), all_streams_.end(), gone),
                       all_streams_.end());
    moved_.notify_all();
    if (eager) {  // callers get their turn
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
}

// A stream may still go on if everything that blocks it may.  Nothing is ready, so all hope comes
// from calls that the program has yet to make.
std::vector<std::string> Core::Deadlocked(const std::vector<CUstream_st*>& blocked) const {
  std::set<const CUstream_st*> hopeful;
  bool grew = true;
  const auto has_hope = [&hopeful](const Blocker& blocker) {
    return blocker.stream == nullptr || hopeful.count(blocker.stream) > 0;
  };
  while (grew) {
    grew = false;
    for (CUstream_st* stream : blocked) {
      if (hopeful.count(stream) > 0) continue;
      const std::vector<Blocker> blockers = stream->queue.front()->Blockers();
      if (!std::all_of(blockers.begin(), blockers.end(), has_hope)) continue;
      hopeful.insert(stream);
      grew = true;
    }
  }
  std::vector<std::string> lines;
  for (CUstream_st* stream : blocked) {
    if (hopeful.count(stream) > 0) continue;
    const Task& head = *stream->queue.front();
    for (const Blocker& blocker : head.Blockers()) {
      if (has_hope(blocker)) continue;
      lines.push_back(absl::StrCat(stream->Name(), ": ", head.Name(), " ", blocker.why, " (",
                                   blocker.stream->Name(), ")"));
    }
  }
  return lines;
}

void Core::Fault(cudaError_t result, const std::string& finding) {
  Report(finding);
  sticky = result;
}

void Core::Drop() {
  for (const auto& stream : all_streams_) stream->queue.clear();
  std::fill(occupants.begin(), occupants.end(), nullptr);
  moved_.notify_all();
}

bool Machine::RunsThisThread() { return Core::InTask(); }

Machine::Machine(const Options& options) : core_(std::make_unique<Core>(options)) {}
Machine::~Machine() = default;

Live Machine::live() const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Live live;
  live.streams = static_cast<int64_t>(core_->streams.size());
  live.events = static_cast<int64_t>(core_->events.size());
  live.allocations = static_cast<int64_t>(core_->allocations.size());
  live.communicators = core_->live_communicators;
  live.pools = static_cast<int64_t>(core_->pools.size());
  live.graphs = static_cast<int64_t>(core_->graphs.size());
  live.executables = static_cast<int64_t>(core_->executables.size());
  live.captures = static_cast<int64_t>(core_->captures.size());
  for (const auto& [data, allocation] : core_->allocations) {
    live.bytes += static_cast<int64_t>(allocation.bytes);
  }
  return live;
}

int64_t Machine::calls(const std::string& name) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const auto found = core_->calls.find(name);
  return found == core_->calls.end() ? 0 : found->second;
}

std::map<std::string, int64_t> Machine::calls() const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->calls;
}

size_t Machine::largest_count() const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->largest_count;
}

bool Machine::busy(int device) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->occupants[static_cast<size_t>(device)] != nullptr;
}

void Machine::FailCall(const std::string& name, int64_t i, int result) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  std::erase_if(core_->knobs, [&name](const auto& it) {
    return it.first == name && it.second.kind == Knob::Kind::kFail;
  });
  core_->knobs.insert({name, {Knob::Kind::kFail, core_->calls[name] + i, result}});
}

void Machine::FailCallsFrom(const std::string& name, int64_t i, int result) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.insert({name, {Knob::Kind::kFailFromHere, core_->calls[name] + i, result}});
}

void Machine::Heal() {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.clear();
}

void Machine::StallCall(const std::string& name, int64_t i) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.insert({name, {Knob::Kind::kStall, core_->calls[name] + i}});
}

void Machine::DelayCall(const std::string& name, int64_t i) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.insert({name, {Knob::Kind::kLate, core_->calls[name] + i}});
}

void Machine::LieInCall(const std::string& name, int64_t i) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.insert({name, {Knob::Kind::kLie, core_->calls[name] + i}});
}

void Machine::LeaveDevice(const std::string& name, int64_t i, int device) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->knobs.insert({name, {Knob::Kind::kLeaveDevice, core_->calls[name] + i, device}});
}

void Machine::Release() {
  std::lock_guard<std::mutex> lock(core_->mutex);
  for (const auto& gate : core_->gates) *gate = true;
  core_->gates.clear();
  core_->Changed();
  core_->Wake();
}

void Machine::StallCollectives(bool stall) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->stalled = stall;
  core_->Changed();
}

void Machine::Lose(int result) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->sticky = static_cast<cudaError_t>(result);
  core_->Changed();
}

void Machine::ReportFromNccl(int result) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->nccl_error = result;
}

std::vector<std::string> Machine::findings() const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->findings();
}

std::string Machine::Verdict() const {
  {
    std::unique_lock<std::mutex> lock(core_->mutex);
    core_->WaitUntil(lock, [this] { return core_->queued() == 0; });
  }
  const Live now = live();
  std::vector<std::string> lines = findings();
  const auto count = [&lines](int64_t number, absl::string_view what) {
    if (number != 0) lines.push_back(absl::StrCat(number, " ", what, " left"));
  };
  count(now.streams, "streams");
  count(now.events, "events");
  count(now.allocations, "allocations");
  count(now.bytes, "bytes");
  count(now.communicators, "communicators");
  count(now.pools, "pools");
  count(now.captures, "captures");
  count(now.graphs, "graphs");
  count(now.executables, "executable graphs");
  return absl::StrJoin(lines, "\n");
}

}  // namespace mp::fake
