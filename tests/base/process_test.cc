// FORK-1: an object's maker is told from its children and grandchildren, whose own objects are
// theirs; threads of the parent are not waited for.

#include "mp/base/process.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/child.h"
#include "tests/support/status_matchers.h"

namespace mp {
namespace {

using test::InChild;

TEST(Process, AChildIsNotTheMaker) {
  const Process maker;
  EXPECT_TRUE(maker.is_this());
  EXPECT_OK(maker.Check());
  EXPECT_EQ(InChild([&]() -> std::string {
              if (KindOf(maker.Check()) != ErrorKind::kUsageError) return "taken for the maker";
              const Process own;
              if (!own.Check().ok()) return "not its own";
              return InChild([&]() -> std::string {
                if (own.is_this() || maker.is_this()) return "a grandchild is taken for a maker";
                return Process().is_this() ? "" : "the grandchild is not its own";
              });
            }),
            "");
  EXPECT_OK(maker.Check());
}

TEST(Process, OnlyTheMakerDeletes) {
  struct Counts {
    explicit Counts(int& count) : at(count) {}
    ~Counts() { ++at; }
    int& at;
  };
  int deleted = 0;
  std::shared_ptr<Counts> counts(new Counts(deleted), DeleteInMaker());
  EXPECT_EQ(InChild([&]() -> std::string {
              counts.reset();
              return deleted == 0 ? "" : "deleted";
            }),
            "");
  counts.reset();
  EXPECT_EQ(deleted, 1);
}

TEST(Process, AThreadOfTheParentIsNotJoined) {
  sync::Atomic<uint32_t> over{0};
  sync::Thread thread = sync::Thread::Start("waits", [&] {
                          while (over.load() == 0) {
                            sync::Clock::Steady().Wait(over, 0, absl::Seconds(1));
                          }
                        }).value();
  EXPECT_EQ(InChild([&]() -> std::string {
              thread.Join();
              return thread.joinable() ? "still joinable" : "";
            }),
            "");
  over.store(1);
  sync::Wake(over);
  thread.Join();
}

}  // namespace
}  // namespace mp
