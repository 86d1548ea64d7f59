// What goes wrong below: every rank of every Region of the World is told the first cause, in
// bounded time, nothing is left behind, and a new World works.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
const Options kWithNccl = {
    .devices = {2, 0, 1}, .transport = Transport::kNccl, .workspace_bytes = 1024};

class Failure : public ::testing::TestWithParam<uint64_t> {
 protected:
  void MakeWorld(absl::Duration close_timeout = absl::Seconds(5)) {
    if (backend_ == nullptr) backend_ = NewBackend(kWithNccl).value();
    world_ = World::Create(backend_, {.close_timeout = close_timeout}).value();
    buffers_.clear();
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers_.push_back(world_->device(rank).Allocate(DType::kF32, {5}).value());
    }
  }
  void TearDown() override {
    machine_.StallCollectives(false);
    buffers_.clear();
    world_.reset();
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  const TensorView& x(int rank) const { return buffers_[static_cast<size_t>(rank)].view(); }
  // What each rank is told by its call, else by its wait.
  std::vector<absl::Status> AllReduce() {
    std::vector<absl::Status> told(kRanks);
    EXPECT_OK(world_->Run([&](Rank& rank) {
      absl::Status& status = told[static_cast<size_t>(rank.id())];
      status = rank.region().AllReduce(x(rank.id()));
      const absl::Status waited = rank.stream().Synchronize();
      if (status.ok()) status = waited;
      return absl::OkStatus();
    }));
    return told;
  }

  // Half of the machines have no access from GPU to GPU.
  bool peers() const { return GetParam() < 3; }
  fake::Options MachineOptions() const {
    fake::Options options = {.devices = kRanks, .seed = GetParam()};
    for (int from = 0; !peers() && from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) options.no_access.insert({from, to});
    }
    return options;
  }

  fake::Machine machine_{MachineOptions()};
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<Buffer> buffers_;
};

// Some ranks have been launched then, and would wait for the others for ever.
TEST_P(Failure, OfALaunchEndsEveryRegionWithItsCause) {
  MakeWorld();
  Region two = world_->NewRegion({0, 1}).value();
  ASSERT_THAT(AllReduce(), Each(mp::test::IsOk()));
  machine_.FailCall("ncclGroupEnd", 1, ncclSystemError);
  const auto cause = AllOf(HasSubstr("ncclGroupEnd"), HasSubstr("system error"));
  EXPECT_THAT(AllReduce(), Each(KindIs(ErrorKind::kDeviceError, cause)));
  EXPECT_THAT(world_->region().status(), KindIs(ErrorKind::kDeviceError, cause));
  EXPECT_THAT(two.status(), KindIs(ErrorKind::kDeviceError, cause));
  EXPECT_THAT(two.AllReduce({x(0), x(1)}), KindIs(ErrorKind::kDeviceError, cause));
  EXPECT_THAT(AllReduce(), Each(KindIs(ErrorKind::kDeviceError, cause)));
  EXPECT_OK(world_->Close());
  MakeWorld();
  EXPECT_THAT(AllReduce(), Each(mp::test::IsOk()));
}

TEST_P(Failure, ThatNcclFindsLaterIsToldToWhoeverWaits) {
  MakeWorld();
  machine_.StallCollectives(true);
  machine_.ReportFromNccl(ncclRemoteError);
  EXPECT_THAT(AllReduce(), Each(KindIs(ErrorKind::kDeviceError, HasSubstr("remote error"))));
  EXPECT_THAT(world_->region().status(),
              KindIs(ErrorKind::kDeviceError, HasSubstr("remote error")));
  machine_.ReportFromNccl(ncclSuccess);
  machine_.StallCollectives(false);
  EXPECT_OK(world_->Close());
  MakeWorld();
  EXPECT_THAT(AllReduce(), Each(mp::test::IsOk()));
}

TEST_P(Failure, ToEndIsAbortedByClose) {
  MakeWorld(absl::Milliseconds(50));
  machine_.StallCollectives(true);
  std::vector<Work> works = world_->region().StartAllReduce({x(0), x(1), x(2)}).value();
  EXPECT_TRUE(absl::IsDeadlineExceeded(world_->Close()));
  for (const Work& work : works) EXPECT_THAT(work.Synchronize(), KindIs(ErrorKind::kClosed));
  while (absl::IsDeadlineExceeded(world_->Close())) {  // an abort takes a moment
  }
  EXPECT_OK(world_->Close());
  EXPECT_EQ(machine_.calls("ncclCommAbort"), 2 * kRanks);
}

// What was agreed before is issued, and no rank goes on before that.
TEST_P(Failure, OfTheRegionLeavesWhatIsBeingIssuedInItsPlace) {
  MakeWorld();
  std::vector<Buffer> copies;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> ones(5, 1.0f);
    copies.push_back(world_->device(rank).Allocate(DType::kF32, {5}).value());
    cudaMemcpy(x(rank).data(), ones.data(), 20, cudaMemcpyHostToDevice);
    cudaMemcpy(copies.back().data(), std::vector<float>(5).data(), 20, cudaMemcpyHostToDevice);
  }
  const int64_t groups = machine_.calls("ncclGroupEnd");
  machine_.StallCall("ncclGroupEnd", 1);
  sync::Atomic<int> returned{0};
  sync::Thread other = sync::Thread::Start("other", [&] {
                         while (machine_.calls("ncclGroupEnd") == groups) sync::Yield();
                         world_->region().Cancel("the next one");
                         for (int i = 0; i < 50 && returned.load(sync::kAcquire) == 0; ++i) {
                           sync::Atomic<uint32_t> never{0};
                           sync::Clock::Steady().Wait(never, 0, absl::Milliseconds(1));
                         }
                         machine_.Release();
                       }).value();
  EXPECT_OK(world_->Run([&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(rank.region().AllReduce(x(rank.id())));
    MP_RETURN_IF_ERROR(
        rank.stream().Copy(x(rank.id()), copies[static_cast<size_t>(rank.id())].view()));
    returned.fetch_add(1, sync::kRelease);
    return rank.stream().Synchronize();
  }));
  other.Join();
  EXPECT_THAT(world_->region().status(), KindIs(ErrorKind::kCancelled));
  for (const Buffer& copy : copies) {
    std::vector<float> got(5);
    cudaMemcpy(got.data(), copy.data(), 20, cudaMemcpyDeviceToHost);
    EXPECT_THAT(got, Each(3.0f));
  }
}

// DEV-6
TEST_P(Failure, BufferOfAnotherDeviceOrTheHostIsRefused) {
  MakeWorld();
  float host[5] = {};
  EXPECT_OK(world_->Run([&](Rank& rank) -> absl::Status {
    const int next = (rank.id() + 1) % kRanks;
    const TensorView on_host(host, DType::kF32, {5});
    EXPECT_THAT(rank.region().AllReduce(x(next)),
                KindIs(ErrorKind::kInvalidArgument,
                       AllOf(HasSubstr(absl::StrCat("memory of ", world_->device(next).name())),
                             HasSubstr(absl::StrCat("is on ", rank.device().name())))));
    EXPECT_THAT(rank.region().AllReduce(on_host),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("no memory of a GPU")));
    EXPECT_THAT(rank.region().Gather(on_host, TensorView(), 0),
                KindIs(ErrorKind::kInvalidArgument));
    return rank.region().AllReduce(x(rank.id()));
  }));
}

// ERR-1, DEV-4: every call of a small program in turn: the program ends, with an error or, where mp
// can do without, as if nothing had been.
TEST_P(Failure, OfAnyCallIsBoundedAndLeavesNothing) {
  const auto program = [&](const Options& options) -> absl::Status {
    MP_ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend, NewBackend(options));
    MP_ASSIGN_OR_RETURN(std::unique_ptr<World> world, World::Create(backend));
    MP_ASSIGN_OR_RETURN(Region two, world->NewRegion({2, 0}));
    const absl::Status ran = world->Run([&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(Buffer y, rank.device().Allocate(DType::kF32, {2, 4}));
      MP_ASSIGN_OR_RETURN(Buffer all, rank.device().Allocate(DType::kF32, {2, 12}));
      MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));
      MP_RETURN_IF_ERROR(rank.region().AllGather(y.view(), all.view()));
      MP_RETURN_IF_ERROR(rank.region().Gather(y.view(), all.view(), 1));
      MP_ASSIGN_OR_RETURN(Work work, rank.region().StartAllReduce(y.view(), {.scale = 0.5}));
      MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
      return rank.stream().Synchronize();
    });
    const absl::Status closed = world->Close();
    return ran.ok() ? closed : ran;
  };
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  // NCCL alone, both, and two ranks on one GPU.
  std::vector<Options> all = {kWithNccl};
  if (peers()) all.insert(all.end(), {{.devices = {2, 0, 1}}, {.devices = {2, 0, 2}}});
  for (const Options& options : all) {
    EXPECT_OK(program(options));
    int failed = 0;
    for (const char* function : {"cudaGetDeviceCount",
                                 "cudaDeviceCanAccessPeer",
                                 "cudaDeviceEnablePeerAccess",
                                 "cudaMalloc",
                                 "cudaStreamCreateWithFlags",
                                 "cudaEventCreateWithFlags",
                                 "cudaSetDevice",
                                 "cudaEventRecord",
                                 "cudaStreamWaitEvent",
                                 "cudaLaunchKernel",
                                 "cudaPointerGetAttributes",
                                 "ncclCommInitAll",
                                 "ncclCommSplit",
                                 "ncclGroupStart",
                                 "ncclGroupEnd",
                                 "ncclAllReduce",
                                 "ncclSend",
                                 "ncclRecv",
                                 "ncclRedOpCreatePreMulSum",
                                 "ncclCommGetAsyncError"}) {
      const int result = function[0] == 'n' ? int{ncclSystemError} : int{cudaErrorMemoryAllocation};
      for (int i = 1;; ++i) {
        SCOPED_TRACE(absl::StrCat(function, ", call ", i));
        ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
        const int64_t before = machine_.calls(function);
        machine_.FailCall(function, i, result);
        const absl::Status status = program(options);
        if (!status.ok()) ++failed;
        int device = -1;
        EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
        if (function != std::string("cudaSetDevice")) {
          EXPECT_EQ(device, 1);
        }
        EXPECT_EQ(machine_.Verdict(), "") << status;
        if (machine_.calls(function) < before + i || ::testing::Test::HasFailure()) break;
      }
      machine_.Heal();
    }
    EXPECT_GT(failed, 50);
  }
}

// ORD-2, ORD-6: after a World has been made, its operations make nothing that could block a device.
TEST_P(Failure, IsNotRiskedByLateAllocations) {
  MakeWorld();
  const std::map<std::string, int64_t> before = machine_.calls();
  for (int i = 0; i < 40; ++i) ASSERT_THAT(AllReduce(), Each(mp::test::IsOk()));
  for (const char* function : {"cudaMalloc", "cudaFree", "cudaStreamCreateWithFlags",
                               "ncclCommInitAll", "ncclCommSplit", "cudaDeviceEnablePeerAccess"}) {
    EXPECT_EQ(machine_.calls(function), before.count(function) ? before.at(function) : 0)
        << function;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Failure, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace mp::cuda
