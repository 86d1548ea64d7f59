// The machine under the fidelity test over the fakes.
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

class FakeMachine final : public ::testing::Environment {
 public:
  ~FakeMachine() override = default;

  void TearDown() override {
    const fake::Live live = machine_->live();
    EXPECT_EQ(live.streams + live.events + live.allocations + live.communicators, 0);
    EXPECT_EQ(live.captures + live.graphs + live.executables + live.pools, 0);
    // What is refused is found as well: none of the calls breaks the machine.
    EXPECT_THAT(
        machine_->findings(),
        ::testing::Each(::testing::AnyOf(
            ::testing::HasSubstr("pitch below the width"), ::testing::HasSubstr("no such root"),
            ::testing::HasSubstr("without a start"), ::testing::HasSubstr("duplicate device"),
            ::testing::HasSubstr("a group mixes collectives"))));
    machine_.reset();
  }

 private:
  // There before the tests are listed, which depends on the devices.
  std::unique_ptr<fake::Machine> machine_ =
      std::make_unique<fake::Machine>(fake::Options{.devices = 2});
};

const auto* const kMachine = ::testing::AddGlobalTestEnvironment(new FakeMachine);

}  // namespace
}  // namespace mp::cuda
