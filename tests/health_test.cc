// ABS-4: the text of a World's health, letter by letter.

#include "mp/health.h"

#include <gtest/gtest.h>

namespace mp {
namespace {

RecentOperation Operation(absl::string_view name, uint64_t sequence) {
  RecentOperation operation;
  operation.region = "tensor";
  operation.name = name;
  operation.sequence = sequence;
  return operation;
}

TEST(Health, ATableTellsWhatEveryRankDoes) {
  WorldHealth health;
  health.state = WorldHealth::State::kFailed;
  health.kind = ErrorKind::kAbsentShard;
  health.cause = "rank 2 did not come";
  health.failed_regions = {{"tensor", ErrorKind::kAbsentShard, "rank 2 did not come"},
                           {"other", ErrorKind::kCancelled, "enough"}};
  health.ranks.resize(3);
  health.ranks[0].finished = Operation("AllReduce", 6);
  health.ranks[0].pending = Operation("AllGather", 17);
  health.ranks[0].age = absl::Milliseconds(1500) + absl::Microseconds(3);
  health.ranks[0].missing = {1, 2};
  health.ranks[0].place = RankHealth::Place::kWaiting;
  health.ranks[0].where = "for rank 0's compute stream";
  health.ranks[1].rank = 1;
  health.ranks[1].place = RankHealth::Place::kBusy;
  health.ranks[2].rank = 12;
  health.ranks[2].finished = Operation("Batch", 6);
  health.ranks[2].place = RankHealth::Place::kLeft;
  health.ranks[2].where = "its function has returned OK";
  EXPECT_EQ(ToString(health), R"(World: failed: rank 2 did not come
Region "tensor" has failed, AbsentShard: rank 2 did not come
Region "other" has failed, Cancelled: enough
rank  finished                        pending                          age   missing  where
   0  AllReduce 6 of Region "tensor"  AllGather 17 of Region "tensor"  1.5s  1,2      waits: )"
                              R"(for rank 0's compute stream
   1  -                               -                                -     -        busy
  12  Batch 6 of Region "tensor"      -                                -     -        has left: )"
                              R"(its function has returned OK
)");
}

TEST(Health, AStateSaysWhatToDo) {
  WorldHealth health;
  EXPECT_EQ(ToString(health).substr(0, 10), "World: ok\n");
  health.state = WorldHealth::State::kLost;
  health.cause = "restart me";
  EXPECT_EQ(ToString(health),
            "World: lost: restart me\n"
            "rank  finished  pending  age  missing  where\n");
  health.state = WorldHealth::State::kBroken;
  EXPECT_EQ(ToString(health).substr(0, 14), "World: broken:");
  health.state = WorldHealth::State::kClosed;
  health.cause.clear();
  EXPECT_EQ(ToString(health).substr(0, 14), "World: closed\n");
}

}  // namespace
}  // namespace mp
