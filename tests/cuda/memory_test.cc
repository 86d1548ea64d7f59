// DEV-8: memory that peers may not reach is refused by name before any kernel touches it, on every
// route where one would.
#include "mp/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kRanks = 3;
constexpr size_t kCount = 5;

TEST(Allocations, AreKnownFromTheFirstByteToTheLast) {
  Allocations all;
  char memory[30] = {};
  all.Add(memory, 10, 3);
  all.Add(memory + 10, 5, 4);
  EXPECT_EQ(all.OwnerOf(memory), 3);
  EXPECT_EQ(all.OwnerOf(memory + 9), 3);
  EXPECT_EQ(all.OwnerOf(memory + 10), 4);
  EXPECT_EQ(all.OwnerOf(memory + 14), 4);
  EXPECT_EQ(all.OwnerOf(memory + 15), -1);
  all.Remove(memory);
  EXPECT_EQ(all.OwnerOf(memory + 9), -1);
  EXPECT_EQ(all.OwnerOf(memory + 10), 4);
}

class MemoryTest : public ::testing::TestWithParam<Transport> {
 protected:
  void MakeWorld(const std::vector<int>& devices) {
    backend_ = NewBackend({.devices = devices, .transport = GetParam()}).value();
    world_ = World::Create(backend_, {.rank_threads = false}).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers_.push_back(world_->device(rank).Allocate(DType::kF32, {kCount}).value());
      views_.push_back(buffers_.back().view());
    }
  }
  void TearDown() override {
    if (world_ != nullptr) {
      EXPECT_OK(world_->Close());
    }
    buffers_.clear();
    world_.reset();
    backend_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  // Memory of a new pool on the device, open to `peers`.
  TensorView FromPool(int device, const std::vector<int>& peers) {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, device};
    EXPECT_EQ(cudaMemPoolCreate(&pool_, &props), cudaSuccess);
    for (const int peer : peers) Open(peer);
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    void* data = nullptr;
    EXPECT_EQ(cudaMallocFromPoolAsync(&data, kCount * sizeof(float), pool_, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return {data, DType::kF32, {kCount}};
  }
  void Open(int peer) {
    cudaMemAccessDesc access{};
    access.location = {cudaMemLocationTypeDevice, peer};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    EXPECT_EQ(cudaMemPoolSetAccess(pool_, &access, 1), cudaSuccess);
  }
  void Free(const TensorView& view) {
    EXPECT_EQ(cudaFreeAsync(view.data(), stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemPoolDestroy(pool_), cudaSuccess);
  }

  fake::Machine machine_{{.devices = kRanks}};
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<Buffer> buffers_;
  std::vector<TensorView> views_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_P(MemoryTest, OfAPoolIsOpenToThoseOnlyThatItNames) {
  MakeWorld({0, 1, 2});
  const TensorView mine = FromPool(1, {0});
  EXPECT_THAT(OwnerOf(mine.data()).value(), 1);
  EXPECT_THAT(ClosedTo(mine.data(), {0, 1, 2}), ElementsAre(2));
  EXPECT_THAT(ClosedTo(mine.data(), {0}), IsEmpty());
  EXPECT_THAT(ClosedTo(views_[1].data(), {0, 2}), IsEmpty());
  const auto address = [](const void* data) { return reinterpret_cast<uintptr_t>(data); };
  EXPECT_EQ(RangeOf(mine.data()),
            absl::StrCat("0x", absl::Hex(address(mine.data())), " to 0x",
                         absl::Hex(address(mine.data()) + kCount * sizeof(float))));
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  Free(mine);
}

TEST_P(MemoryTest, ThatPeersDoNotReachIsRefusedUntilItIsOpened) {
  MakeWorld({0, 1, 2});
  const TensorView mine = FromPool(1, {});
  views_[1] = mine;
  const auto closed =
      AllOf(HasSubstr("the input at"), HasSubstr("is memory of cuda 1"),
            HasSubstr("closed to cuda 0, cuda 2"), HasSubstr("cudaMemPoolSetAccess"));
  EXPECT_THAT(world_->region().AllReduce(views_), KindIs(ErrorKind::kInvalidArgument, closed));
  EXPECT_THAT(world_->region().Gather(views_, TensorView(), 0), Not(mp::test::IsOk()));
  Open(0);
  EXPECT_THAT(world_->region().AllReduce(views_),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("closed to cuda 2")));
  Open(2);
  EXPECT_OK(world_->region().AllReduce(views_));
  EXPECT_OK(world_->Synchronize());
  Free(mine);
}

INSTANTIATE_TEST_SUITE_P(Transports, MemoryTest,
                         ::testing::Values(Transport::kNccl, Transport::kDirect));

// All ranks on its own GPU: nobody else reaches for it.
class OneGpuMemoryTest : public MemoryTest {};

TEST_P(OneGpuMemoryTest, OfAPoolIsTaken) {
  MakeWorld({1, 1, 1});
  const TensorView mine = FromPool(1, {});
  views_[2] = mine;
  EXPECT_OK(world_->region().AllReduce(views_));
  EXPECT_OK(world_->Synchronize());
  Free(mine);
}

INSTANTIATE_TEST_SUITE_P(Transports, OneGpuMemoryTest, ::testing::Values(Transport::kAuto));

}  // namespace
}  // namespace mp::cuda
