#include "tests/random/arenas.h"

#include <algorithm>

namespace mp::test {
namespace {

constexpr int64_t kGuardBytes = 32;

// From one element along `dim` to the next, in a result that has slots.
int64_t SlotUnit(DType dtype, const Shape& shape, int dim, int64_t pitch) {
  const int last = shape.rank() - 1;
  return dim == last ? SizeOf(dtype) : shape.Product(dim + 1, last) * pitch;
}

}  // namespace

Arenas::Arenas(const ProgramOptions& options, Random& random)
    : options_(options), random_(random), end_(At(options.ranks), kGuardBytes) {}

Shape Arenas::NewShape(int dims) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < dims; ++i) {
    sizes.push_back(random_.OneIn(options_.is_long ? 100 : 20) ? 0 : 1 + random_.Below(6));
  }
  if (dims == 1 && random_.OneIn(3)) sizes[0] = random_.Below(70);
  if (dims == 1 && !options_.is_long && random_.OneIn(6)) {
    sizes[0] = random_.Below(random_.OneIn(4) ? 100'000 : 5'000);
  }
  return Shape(sizes);
}

int64_t Arenas::NewExtent(int dims) {
  if (!options_.is_long && dims <= 2 && random_.OneIn(8)) return random_.Below(3000);
  return random_.Below(6);
}

Place Arenas::NewPlace(int rank, DType dtype, const Shape& shape, bool dense) {
  const int64_t element = SizeOf(dtype);
  int64_t& end = end_[At(rank)];
  Place place{.arena = rank, .shape = shape};
  place.offset = (end + kGuardBytes + element - 1) / element * element;
  if (options_.reduces_at_any_byte && random_.OneIn(4)) place.offset += random_.Below(16);
  const int64_t gap = dense || random_.OneIn(2) ? 0 : 1 + random_.Below(3);
  place.pitch = (shape.columns() + gap) * element;
  end = place.offset + shape.Product(0, shape.rank() - 1) * place.pitch;
  return place;
}

Array Arenas::NewArray(int group, const std::vector<int>& ranks, DType dtype,
                       const std::vector<Shape>& shapes, bool dense,
                       const std::vector<bool>& wanted) {
  Array made{.group = group, .dtype = dtype, .places = std::vector<Place>(ranks.size())};
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (!wanted.empty() && !wanted[m]) continue;
    made.places[m] = NewPlace(ranks[m], dtype, shapes[m], dense);
  }
  return made;
}

Array Arenas::NewShared(int group, const std::vector<int>& ranks, DType dtype, const Shape& shape,
                        bool dense) {
  Array made{.group = group, .dtype = dtype, .shared = true};
  made.places.assign(ranks.size(), NewPlace(random_.Pick(ranks), dtype, shape, dense));
  return made;
}

Array Arenas::NewSlots(const Array& output, int alias, const std::vector<int>& ranks,
                       const Call& call, int dim, const std::vector<Shape>& shapes) {
  const bool to_one = call.kind == OpKind::kGather;
  Array made{.group = output.group, .dtype = output.dtype, .alias = alias};
  int64_t offset = 0;
  for (size_t m = 0; m < shapes.size(); ++m) {
    const Place& home = output.places[to_one ? At(call.root) : m];
    if (to_one && home.arena != ranks[m] && random_.OneIn(2)) {
      made.places.push_back(NewPlace(ranks[m], output.dtype, shapes[m], false));
    } else {
      const int64_t unit = SlotUnit(output.dtype, shapes[m], dim, home.pitch);
      made.places.push_back({.arena = home.arena,
                             .offset = home.offset + offset * unit,
                             .pitch = home.pitch,
                             .shape = shapes[m]});
    }
    offset += shapes[m].dim(dim);
  }
  return made;
}

int64_t Arenas::bytes() const { return *std::max_element(end_.begin(), end_.end()); }

}  // namespace mp::test
