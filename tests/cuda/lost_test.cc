// ERR-6: after an error that CUDA repeats for the rest of the process every rank is told DeviceLost
// and its first cause, nothing new begins, and nobody says that it has recovered.  Each test is a
// child process: what is lost stays lost.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/health.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/child.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::InChild;

constexpr int kRanks = 3;

// What is wrong with what somebody was told.
std::string Wrong(const std::string& who, const absl::Status& status) {
  const bool right =
      KindOf(status) == ErrorKind::kDeviceLost &&
      std::string(status.message()).find("cudaErrorIllegalAddress") != std::string::npos;
  return right ? "" : absl::StrCat(who, ": ", status.ToString(), "\n");
}

// What goes on while CUDA is lost.
enum class When { kBetweenOperations, kWhileRanksWait, kWhileACollectiveStandsStill };

std::string LoseIt(const Options& options, uint64_t seed, When when) {
  fake::Machine machine({.devices = kRanks, .seed = seed});
  std::string wrong;
  {
    std::shared_ptr<Backend> backend = NewBackend(options).value();
    std::unique_ptr<World> world =
        World::Create(backend, {.close_timeout = absl::Seconds(1)}).value();
    std::vector<Buffer> buffers;
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(world->device(rank).Allocate(DType::kF32, {5}).value());
    }
    Region pair = world->NewRegion({2, 0}).value();
    std::vector<absl::Status> told(kRanks);
    sync::Atomic<int> waiting{0};
    const absl::Status ran = world->Run([&](Rank& rank) {
      absl::Status& status = told[static_cast<size_t>(rank.id())];
      const TensorView& x = buffers[static_cast<size_t>(rank.id())].view();
      status = rank.region().AllReduce(x);
      if (status.ok()) status = rank.stream().Synchronize();
      if (!status.ok()) return absl::OkStatus();
      if (rank.id() == 1) {
        while (waiting.load() < kRanks - 1) sync::Yield();
        if (when == When::kWhileACollectiveStandsStill) {
          machine.StallCollectives(true);
        } else {
          machine.Lose(cudaErrorIllegalAddress);
        }
      }
      ++waiting;
      while (when == When::kBetweenOperations && waiting.load() < kRanks) sync::Yield();
      status = rank.region().AllReduce(x);
      if (rank.id() == 1 && when == When::kWhileACollectiveStandsStill) {
        machine.Lose(cudaErrorIllegalAddress);
      }
      const absl::Status waited = rank.stream().Synchronize();
      if (status.ok()) status = waited;
      return absl::OkStatus();
    });
    if (!ran.ok() && KindOf(ran) != ErrorKind::kDeviceLost) wrong += ran.ToString();
    for (int rank = 0; rank < kRanks; ++rank) {
      wrong += Wrong(absl::StrCat("rank ", rank), told[static_cast<size_t>(rank)]);
    }
    wrong += Wrong("a Region", world->region().status());
    wrong += Wrong("another Region", pair.AllReduce({buffers[2].view(), buffers[0].view()}));
    wrong += Wrong("World::Create", World::Create(backend).status());
    wrong += Wrong("NewBackend", NewBackend(options).status());
    wrong += Wrong("CheckNotLost", CheckNotLost());
    const WorldHealth health = world->Health();
    if (health.state != WorldHealth::State::kLost || health.kind != ErrorKind::kDeviceLost ||
        ToString(health).find("has to be restarted") == std::string::npos) {
      absl::StrAppend(&wrong, ToString(health));
    }
    static_cast<void>(world->Close());  // in time
    if (world->Health().state != WorldHealth::State::kLost) wrong += "forgotten by Close\n";
    buffers.clear();
  }
  wrong += Wrong("NewBackend behind it", NewBackend(options).status());
  return wrong;
}

class LostTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LostTest, IsToldToAllAndForEver) {
  const Options nccl{.devices = {2, 0, 1}, .transport = Transport::kNccl};
  const std::vector<When> between = {When::kBetweenOperations, When::kWhileRanksWait};
  std::vector<std::pair<Options, When>> cases = {{nccl, When::kWhileACollectiveStandsStill}};
  for (const When when : between) {
    for (const Options& options : {nccl, Options{.devices = {2, 0, 1}}, {.devices = {2, 0, 2}}}) {
      cases.emplace_back(options, when);
    }
  }
  for (const auto& [options, when] : cases) {
    const absl::Duration start = sync::Clock::Steady().Now();
    const auto in_child = [&, with = options, at = when] { return LoseIt(with, GetParam(), at); };
    EXPECT_EQ(InChild(in_child), "") << static_cast<int>(when);
    EXPECT_LT(sync::Clock::Steady().Now() - start, absl::Seconds(20));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LostTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace mp::cuda
