// Shows that a Mesh's arithmetic is what its header says, for every mesh of up to 4 x 4 x 4 ranks
// and every rank of it, by counting through the ranks; and that what cannot be counted is refused.

#include "mp/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::ElementsAre;

constexpr int kMost = std::numeric_limits<int>::max();

std::vector<Mesh> SmallMeshes() {
  std::vector<Mesh> meshes;
  for (int data = 1; data <= 4; ++data) {
    for (int pipeline = 1; pipeline <= 4; ++pipeline) {
      for (int tensor = 1; tensor <= 4; ++tensor) {
        meshes.push_back(Mesh::Create({data, pipeline, tensor}).value());
      }
    }
  }
  return meshes;
}

std::string Name(const Mesh& mesh) {
  return absl::StrCat(mesh.sizes().data, " x ", mesh.sizes().pipeline, " x ", mesh.sizes().tensor);
}

// Whether two ranks have the same place on all axes but one.
bool DifferOnlyOn(Axis axis, const MeshPoint& a, const MeshPoint& b) {
  for (const Axis other : kAxes) {
    if (other != axis && a.at(other) != b.at(other)) return false;
  }
  return true;
}

TEST(Mesh, OfOneRankIsTheDefault) {
  const Mesh mesh;
  EXPECT_EQ(mesh.world_size(), 1);
  EXPECT_EQ(mesh.sizes(), (MeshPoint{1, 1, 1}));
  for (const Axis axis : kAxes) EXPECT_THAT(mesh.Groups(axis), ElementsAre(ElementsAre(0)));
}

TEST(Mesh, GroupsAreThoseOfTheHeader) {
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Create({.data = 2, .pipeline = 1, .tensor = 4}));
  EXPECT_THAT(mesh.GroupOf(5, Axis::kTensor), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.GroupOf(5, Axis::kData), ElementsAre(1, 5));
  EXPECT_THAT(mesh.GroupOf(5, Axis::kPipeline), ElementsAre(5));
  EXPECT_THAT(mesh.Groups(Axis::kTensor),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(mesh.Groups(Axis::kData), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                                                    ElementsAre(2, 6), ElementsAre(3, 7)));
}

TEST(Mesh, RanksCountTensorFirstAndDataLast) {
  for (const Mesh& mesh : SmallMeshes()) {
    SCOPED_TRACE(Name(mesh));
    int rank = 0;
    for (int data = 0; data < mesh.sizes().data; ++data) {
      for (int pipeline = 0; pipeline < mesh.sizes().pipeline; ++pipeline) {
        for (int tensor = 0; tensor < mesh.sizes().tensor; ++tensor, ++rank) {
          const MeshPoint point = {data, pipeline, tensor};
          EXPECT_EQ(mesh.CoordinatesOf(rank), point);
          EXPECT_EQ(mesh.RankAt(point), rank);
        }
      }
    }
    EXPECT_EQ(mesh.world_size(), rank);
  }
}

TEST(Mesh, AGroupIsTheRanksThatDifferOnItsAxisOnly) {
  for (const Mesh& mesh : SmallMeshes()) {
    SCOPED_TRACE(Name(mesh));
    for (const Axis axis : kAxes) {
      for (int rank = 0; rank < mesh.world_size(); ++rank) {
        std::vector<int> expected;  // along an axis ranks go up
        for (int other = 0; other < mesh.world_size(); ++other) {
          if (DifferOnlyOn(axis, mesh.CoordinatesOf(rank), mesh.CoordinatesOf(other))) {
            expected.push_back(other);
          }
        }
        EXPECT_EQ(mesh.GroupOf(rank, axis), expected) << AxisName(axis) << " of " << rank;
      }
    }
  }
}

TEST(Mesh, EveryRankIsInOneGroupOfEachAxis) {
  for (const Mesh& mesh : SmallMeshes()) {
    SCOPED_TRACE(Name(mesh));
    for (const Axis axis : kAxes) {
      std::vector<int> seen(static_cast<size_t>(mesh.world_size()), 0);
      int first = -1;
      for (const std::vector<int>& group : mesh.Groups(axis)) {
        ASSERT_EQ(static_cast<int>(group.size()), mesh.sizes().at(axis));
        EXPECT_LT(first, group[0]) << "groups come in the order of their first ranks";
        first = group[0];
        for (const int rank : group) {
          ++seen[static_cast<size_t>(rank)];
          EXPECT_EQ(mesh.GroupOf(rank, axis), group);
        }
      }
      EXPECT_THAT(seen, ::testing::Each(1)) << AxisName(axis);
    }
  }
}

TEST(Mesh, AnAxisHasAtLeastOneRank) {
  for (const int size : {0, -1, std::numeric_limits<int>::min()}) {
    const std::string end = absl::StrCat(" axis has size ", size, ", must be at least 1");
    EXPECT_THAT(Mesh::Create({size, 2, 2}),
                KindIs(ErrorKind::kInvalidArgument, "Mesh: the data" + end));
    EXPECT_THAT(Mesh::Create({2, size, 2}),
                KindIs(ErrorKind::kInvalidArgument, "Mesh: the pipeline" + end));
    EXPECT_THAT(Mesh::Create({2, 2, size}),
                KindIs(ErrorKind::kInvalidArgument, "Mesh: the tensor" + end));
  }
}

TEST(Mesh, HasAsManyRanksAsAnIntCounts) {
  ASSERT_OK_AND_ASSIGN(const Mesh largest, Mesh::Create({1, kMost, 1}));
  EXPECT_EQ(largest.world_size(), kMost);
  EXPECT_EQ(largest.CoordinatesOf(kMost - 1), (MeshPoint{0, kMost - 1, 0}));
  ASSERT_OK_AND_ASSIGN(const Mesh large, Mesh::Create({2, 32767, 32768}));  // 2^31 - 2^16
  EXPECT_EQ(large.world_size(), 2147418112);
  EXPECT_EQ(large.RankAt({1, 32766, 32767}), 2147418111);
  EXPECT_EQ(large.CoordinatesOf(2147418111), (MeshPoint{1, 32766, 32767}));
  EXPECT_THAT(
      Mesh::Create({2, 32768, 32768}),
      KindIs(ErrorKind::kInvalidArgument, "Mesh: 2 x 32768 x 32768 ranks are more than 2^31 - 1"));
  EXPECT_THAT(Mesh::Create({kMost, kMost, kMost}), KindIs(ErrorKind::kInvalidArgument));
  EXPECT_THAT(Mesh::Create({65536, 65536, 1}), KindIs(ErrorKind::kInvalidArgument));
}

TEST(Axis, HasAName) {
  EXPECT_EQ(AxisName(Axis::kData), "data");
  EXPECT_EQ(AxisName(Axis::kPipeline), "pipeline");
  EXPECT_EQ(AxisName(Axis::kTensor), "tensor");
}

}  // namespace
}  // namespace mp::test
