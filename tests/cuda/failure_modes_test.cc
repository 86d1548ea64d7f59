// ERR-1 beyond one failed call: calls that fail from one on, that stall and come back late, whose
// work runs late, that leave another device current, and that lie.  After each of them the program
// has ended, every rank that was told of an error was told the first cause, nothing is left and
// the caller's device is current; where nothing has failed every result is right.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/child.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kCallersDevice = 1;

struct Outcome {
  absl::Status made;                                                   // the Backend and the World
  std::vector<absl::Status> told = std::vector<absl::Status>(kRanks);  // to each rank
  absl::Status closed;
  bool right = true;  // results of ranks that were told of no error

  bool ok() const {
    bool all = made.ok() && closed.ok();
    for (const absl::Status& status : told) all = all && status.ok();
    return all;
  }
};

// Rank r gives r + 1 everywhere: sums to 6, halves to 3, and joins in order.
absl::Status RunRank(Rank& rank, Region& pair, bool& right) {
  const int id = rank.id();
  MP_ASSIGN_OR_RETURN(Buffer x, rank.device().Allocate(DType::kF32, {2, 2}));
  MP_ASSIGN_OR_RETURN(Buffer all, rank.device().Allocate(DType::kF32, {2, 6}));
  const std::vector<float> mine(4, static_cast<float>(id + 1));
  MP_RETURN_IF_ERROR(rank.stream().Copy(
      TensorView(const_cast<float*>(mine.data()), DType::kF32, {2, 2}), x.view()));
  MP_RETURN_IF_ERROR(rank.region().AllGather(x.view(), all.view()));
  MP_RETURN_IF_ERROR(rank.region().AllReduce(x.view()));
  MP_ASSIGN_OR_RETURN(Work work, rank.region().StartAllReduce(x.view(), {.scale = 0.5}));
  MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
  if (id != 1) {
    MP_ASSIGN_OR_RETURN(RankRegion here, pair.ForRank(rank));
    MP_RETURN_IF_ERROR(here.AllReduce(x.view()));  // 9 each
  }
  std::vector<float> sums(4), joined(12);
  MP_RETURN_IF_ERROR(rank.stream().Copy(x.view(), TensorView(sums.data(), DType::kF32, {2, 2})));
  MP_RETURN_IF_ERROR(
      rank.stream().Copy(all.view(), TensorView(joined.data(), DType::kF32, {2, 6})));
  MP_RETURN_IF_ERROR(rank.stream().Synchronize());
  right = sums == std::vector<float>(4, id == 1 ? 9.0F : 18.0F) &&
          joined == std::vector<float>({1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
  return absl::OkStatus();
}

Outcome RunProgram(const Options& options) {
  Outcome outcome;
  absl::StatusOr<std::shared_ptr<Backend>> backend = NewBackend(options);
  outcome.made = backend.status();
  if (!backend.ok()) return outcome;
  absl::StatusOr<std::unique_ptr<World>> world = World::Create(*backend);
  outcome.made = world.status();
  if (!world.ok()) return outcome;
  absl::StatusOr<Region> pair = (*world)->NewRegion({2, 0});
  outcome.made = pair.status();
  if (pair.ok()) {
    bool right[kRanks] = {true, true, true};
    static_cast<void>((*world)->Run([&](Rank& rank) {
      const auto at = static_cast<size_t>(rank.id());
      return outcome.told[at] = RunRank(rank, *pair, right[at]);
    }));
    for (const bool one : right) outcome.right = outcome.right && one;
  }
  outcome.closed = (*world)->Close();
  return outcome;
}

// How an error text calls the function that has failed.
std::string NameInTexts(const std::string& function) {
  return function == "cudaLaunchKernel" ? "Launch" : function;
}

// Another thread lets go on, after a moment, whatever has stalled or is late.
class Releaser {
 public:
  explicit Releaser(fake::Machine& machine)
      : thread_(sync::Thread::Start("releases", [this, &machine] {
                  sync::Atomic<uint32_t> never{0};
                  while (!over_.load()) {
                    sync::Clock::Steady().Wait(never, 0, absl::Milliseconds(2));
                    machine.Release();
                  }
                }).value()) {}
  ~Releaser() {
    over_ = true;
    thread_.Join();
  }
  Releaser(const Releaser&) = delete;
  Releaser& operator=(const Releaser&) = delete;

 private:
  sync::Atomic<bool> over_{false};
  sync::Thread thread_;
};

class FailureModes : public ::testing::TestWithParam<uint64_t> {
 protected:
  bool peers() const { return GetParam() < 3; }
  fake::Options MachineOptions() const {
    fake::Options options = {.devices = kRanks, .seed = GetParam()};
    for (int from = 0; !peers() && from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) options.no_access.insert({from, to});
    }
    return options;
  }
  // NCCL alone, both, and two ranks on one GPU.
  std::vector<Options> AllOptions() const {
    std::vector<Options> all = {
        {.devices = {2, 0, 1}, .transport = Transport::kNccl, .workspace_bytes = 1024}};
    if (peers()) all.insert(all.end(), {{.devices = {2, 0, 1}}, {.devices = {2, 0, 2}}});
    return all;
  }

  // Runs the program with `spoil(function, i)` for calls of each function that lie ever farther
  // apart, until it is not called so often.
  void Sweep(fake::Machine& machine, const std::vector<std::string>& functions,
             const std::function<void(const std::string&, int)>& spoil,
             const std::function<void(const std::string&, const Outcome&)>& check) {
    for (const Options& options : AllOptions()) {
      ASSERT_TRUE(RunProgram(options).right);
      for (const std::string& function : functions) {
        for (int i = 1;; i += 1 + i / 2) {
          SCOPED_TRACE(absl::StrCat(function, ", call ", i));
          ASSERT_EQ(cudaSetDevice(kCallersDevice), cudaSuccess);
          const int64_t before = machine.calls(function);
          spoil(function, i);
          const Outcome outcome = RunProgram(options);
          const bool reached = machine.calls(function) >= before + i;
          machine.Release();
          machine.Heal();
          int device = -1;
          EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
          if (function != "cudaSetDevice") {
            EXPECT_EQ(device, kCallersDevice);
          }
          EXPECT_EQ(machine.Verdict(), "");
          EXPECT_TRUE(outcome.right);
          check(function, outcome);
          if (!reached || HasFailure()) break;
        }
      }
      if (HasFailure()) return;
    }
  }

  static void ExpectOneCause(const std::string& function, const Outcome& outcome) {
    for (const absl::Status& status : outcome.told) {
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(NameInTexts(function)));
      }
    }
    if (!outcome.made.ok()) {
      EXPECT_THAT(std::string(outcome.made.message()), HasSubstr(NameInTexts(function)));
    }
  }
};

// All that mp calls with an answer that counts.
const std::vector<std::string> kAnswered = {"cudaMalloc",
                                            "cudaStreamCreateWithFlags",
                                            "cudaEventCreateWithFlags",
                                            "cudaSetDevice",
                                            "cudaEventRecord",
                                            "cudaStreamWaitEvent",
                                            "cudaLaunchKernel",
                                            "cudaPointerGetAttributes",
                                            "cudaMemcpyAsync",
                                            "cudaMemcpy2DAsync",
                                            "ncclCommInitAll",
                                            "ncclCommSplit",
                                            "ncclGroupStart",
                                            "ncclGroupEnd",
                                            "ncclAllReduce",
                                            "ncclSend",
                                            "ncclRecv",
                                            "ncclCommGetAsyncError"};

TEST_P(FailureModes, CallsThatFailFromOneOn) {
  fake::Machine machine(MachineOptions());
  int failed = 0;
  Sweep(
      machine, kAnswered,
      [&](const std::string& function, int i) {
        const int result =
            function[0] == 'n' ? int{ncclSystemError} : int{cudaErrorMemoryAllocation};
        machine.FailCallsFrom(function, i, result);
      },
      [&](const std::string& function, const Outcome& outcome) {
        if (!outcome.ok()) ++failed;
        ExpectOneCause(function, outcome);
      });
  EXPECT_GT(failed, 30);
}

TEST_P(FailureModes, CallsThatStall) {
  fake::Machine machine(MachineOptions());
  const Releaser releaser(machine);
  Sweep(
      machine, kAnswered,
      [&](const std::string& function, int i) { machine.StallCall(function, i); },
      [&](const std::string&, const Outcome& outcome) { EXPECT_TRUE(outcome.ok()); });
}

TEST_P(FailureModes, CallsWhoseWorkIsLate) {
  fake::Machine machine(MachineOptions());
  const Releaser releaser(machine);
  Sweep(
      machine,
      {"cudaEventRecord", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemcpy2DAsync",
       "ncclAllReduce", "ncclGroupEnd"},
      [&](const std::string& function, int i) { machine.DelayCall(function, i); },
      [&](const std::string&, const Outcome& outcome) { EXPECT_TRUE(outcome.ok()); });
}

// As NCCL may.
TEST_P(FailureModes, CallsThatLeaveAnotherDevice) {
  fake::Machine machine(MachineOptions());
  std::vector<std::string> functions;
  for (const std::string& function : kAnswered) {
    if (function[0] == 'n') functions.push_back(function);
  }
  Sweep(
      machine, functions,
      [&](const std::string& function, int i) { machine.LeaveDevice(function, i, i % kRanks); },
      [&](const std::string&, const Outcome& outcome) { EXPECT_TRUE(outcome.ok()); });
}

// What such a call leaves undone, or makes of the next ones, cannot always be seen; the program
// ends all the same, and where CUDA still frees anything nothing is left.  Each in a process of its
// own, since some end in the loss of CUDA.
TEST_P(FailureModes, CallsThatLieOrMisleadCuda) {
  const auto end = [&](const Options& options, const auto& spoil) -> std::string {
    fake::Machine machine(MachineOptions());
    if (cudaSetDevice(kCallersDevice) != cudaSuccess) return "no device";
    spoil(machine);
    static_cast<void>(RunProgram(options));
    if (!CheckNotLost().ok()) return "";
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess || device != kCallersDevice) {
      return absl::StrCat("the device is ", device);
    }
    const fake::Live live = machine.live();
    const int64_t left = live.streams + live.events + live.allocations + live.communicators;
    return left == 0 ? "" : absl::StrCat(left, " handles are left");
  };
  for (const Options& options : AllOptions()) {
    for (int i = 1; i < 60; i += 1 + i / 2) {
      for (const char* function : {"cudaEventRecord", "cudaStreamWaitEvent", "cudaLaunchKernel",
                                   "cudaDeviceEnablePeerAccess", "ncclGroupEnd"}) {
        const auto lie = [&](fake::Machine& machine) { machine.LieInCall(function, i); };
        EXPECT_EQ(test::InChild([&] { return end(options, lie); }), "")
            << "lie in " << function << ", call " << i;
      }
      for (const char* function : {"cudaMalloc", "cudaStreamCreateWithFlags", "cudaEventRecord",
                                   "cudaEventCreateWithFlags", "cudaLaunchKernel"}) {
        const auto leave = [&](fake::Machine& machine) {
          machine.LeaveDevice(function, i, i % kRanks);
        };
        EXPECT_EQ(test::InChild([&] { return end(options, leave); }), "")
            << "device left by " << function << ", call " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FailureModes, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace mp::cuda
