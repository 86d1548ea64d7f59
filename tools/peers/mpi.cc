// A peer: one process per rank, MPI over shared memory.  Built with each MPI's own compiler.
//
// MPI joins flat memory only: along the last dimension its gather is followed by a copy that puts
// the rows in their places, or told of the places by a datatype.  With MP_DATATYPE in the
// environment it is the latter.
#include <mpi.h>

#include "measure.h"

namespace {

using namespace peers;

struct Group {
  void Barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  int FromFirst(int, int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
  }
};

bool Measure(const Arguments& arguments, int rank, size_t bytes) {
  Group group;
  const Shape shape = ShapeOf(arguments, bytes);
  const int count = static_cast<int>(shape.count());
  const auto ranks = static_cast<size_t>(arguments.ranks);
  std::vector<float> mine(shape.count(), static_cast<float>(rank + 1));
  if (arguments.op == "allreduce") {
    const auto reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, mine.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    reduce();
    CheckAll(mine.data(), mine.size(), SumOf(arguments.ranks));
    std::fill(mine.begin(), mine.end(), 0.0f);  // so that sums stay finite
    return Time(arguments, group, rank, bytes, reduce);
  }
  const bool all = arguments.op == "allgather";
  const bool receives = all || rank == 0;
  std::vector<float> flat(shape.count() * ranks), joined(shape.count() * ranks);
  MPI_Datatype column, block;
  MPI_Type_vector(static_cast<int>(shape.rows), static_cast<int>(shape.columns),
                  static_cast<int>(ranks * shape.columns), MPI_FLOAT, &column);
  MPI_Type_create_resized(column, 0, static_cast<MPI_Aint>(shape.columns * sizeof(float)), &block);
  MPI_Type_commit(&block);
  const bool placed = std::getenv("MP_DATATYPE") != nullptr;
  float* const to = placed ? joined.data() : flat.data();
  const MPI_Datatype type = placed ? block : MPI_FLOAT;
  const int each = placed ? 1 : count;
  const auto gather = [&] {
    if (all) {
      MPI_Allgather(mine.data(), count, MPI_FLOAT, to, each, type, MPI_COMM_WORLD);
    } else {
      MPI_Gather(mine.data(), count, MPI_FLOAT, to, each, type, 0, MPI_COMM_WORLD);
    }
    if (placed || !receives) return;
    const size_t width = shape.columns * sizeof(float);
    for (size_t source = 0; source < ranks; ++source) {
      for (size_t row = 0; row < shape.rows; ++row) {
        std::memcpy(&joined[(row * ranks + source) * shape.columns],
                    &flat[(source * shape.rows + row) * shape.columns], width);
      }
    }
  };
  gather();
  if (receives) CheckJoined(joined.data(), shape, arguments.ranks);
  const bool goes_on = Time(arguments, group, rank, bytes, gather);
  MPI_Type_free(&block);
  MPI_Type_free(&column);
  return goes_on;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Arguments arguments = Parse(argc, argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != arguments.ranks) Fail("started with another number of ranks");
  for (const size_t bytes : arguments.sizes) {
    if (!Measure(arguments, rank, bytes)) break;
  }
  MPI_Finalize();
}
