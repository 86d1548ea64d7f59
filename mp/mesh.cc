#include "mp/mesh.h"

#include "mp/base/status.h"

namespace mp {
namespace {

void SetAt(MeshPoint& point, Axis axis, int value) {
  (axis == Axis::kData       ? point.data
   : axis == Axis::kPipeline ? point.pipeline
                             : point.tensor) = value;
}

}  // namespace

absl::string_view AxisName(Axis axis) {
  return axis == Axis::kData ? "data" : axis == Axis::kPipeline ? "pipeline" : "tensor";
}

absl::StatusOr<Mesh> Mesh::Create(const MeshPoint& sizes) {
  int ranks = 1;
  for (const Axis axis : kAxes) {
    if (sizes.at(axis) < 1) {
      return InvalidArgument("Mesh: the ", AxisName(axis), " axis has size ", sizes.at(axis),
                             ", must be at least 1");
    }
    if (__builtin_mul_overflow(ranks, sizes.at(axis), &ranks)) {
      return InvalidArgument("Mesh: ", sizes.data, " x ", sizes.pipeline, " x ", sizes.tensor,
                             " ranks are more than 2^31 - 1");
    }
  }
  return Mesh(sizes);
}

MeshPoint Mesh::CoordinatesOf(int rank) const {
  MeshPoint point;
  point.tensor = rank % sizes_.tensor;
  point.pipeline = rank / sizes_.tensor % sizes_.pipeline;
  point.data = rank / sizes_.tensor / sizes_.pipeline;
  return point;
}

int Mesh::RankAt(const MeshPoint& coordinates) const {
  return (coordinates.data * sizes_.pipeline + coordinates.pipeline) * sizes_.tensor +
         coordinates.tensor;
}

std::vector<int> Mesh::GroupOf(int rank, Axis axis) const {
  MeshPoint point = CoordinatesOf(rank);
  std::vector<int> group;
  for (int i = 0; i < sizes_.at(axis); ++i) {
    SetAt(point, axis, i);
    group.push_back(RankAt(point));
  }
  return group;
}

std::vector<std::vector<int>> Mesh::Groups(Axis axis) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (CoordinatesOf(rank).at(axis) == 0) groups.push_back(GroupOf(rank, axis));
  }
  return groups;
}

}  // namespace mp
