// Arithmetic of ranks on three axes: which coordinates a rank has, and which ranks it shares an
// axis with.
//
//   MP_ASSIGN_OR_RETURN(mp::Mesh mesh, mp::Mesh::Create({.data = 2, .pipeline = 1, .tensor = 4}));
//   mesh.GroupOf(5, mp::Axis::kTensor);   // {4, 5, 6, 7}
//   mesh.GroupOf(5, mp::Axis::kData);     // {1, 5}
//
// The tensor coordinate runs fastest, the data coordinate slowest:
// rank = (data * pipeline_size + pipeline) * tensor_size + tensor.
//
// Threads. Values.
#ifndef MP_MESH_H_
#define MP_MESH_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp {

enum class Axis { kData, kPipeline, kTensor };
inline constexpr std::array<Axis, 3> kAxes{Axis::kData, Axis::kPipeline, Axis::kTensor};

// "data", "pipeline", "tensor".
absl::string_view AxisName(Axis axis);

// Sizes of the axes, or a rank's place on each.
struct MeshPoint {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;

  int at(Axis axis) const {
    return axis == Axis::kData ? data : axis == Axis::kPipeline ? pipeline : tensor;
  }
  friend bool operator==(const MeshPoint&, const MeshPoint&) = default;
};

class Mesh {
 public:
  // One rank.
  Mesh() = default;
  // InvalidArgument: a size below 1, or more ranks than an int can count.
  static absl::StatusOr<Mesh> Create(const MeshPoint& sizes);

  const MeshPoint& sizes() const { return sizes_; }
  int world_size() const { return sizes_.data * sizes_.pipeline * sizes_.tensor; }

  // 0 <= rank < world_size(); coordinates count from 0.
  MeshPoint CoordinatesOf(int rank) const;
  int RankAt(const MeshPoint& coordinates) const;

  // The ranks that differ from `rank` on `axis` only, `rank` included, in the axis's order.
  std::vector<int> GroupOf(int rank, Axis axis) const;
  // All groups of an axis; every rank is in one of them.
  std::vector<std::vector<int>> Groups(Axis axis) const;

 private:
  explicit Mesh(const MeshPoint& sizes) : sizes_(sizes) {}
  MeshPoint sizes_;
};

}  // namespace mp

#endif  // MP_MESH_H_
