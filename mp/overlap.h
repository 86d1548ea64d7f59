// Memory of an operation that overlaps where it must not: an output with another output, or with
// an input that is not exactly the part of it that the operation leaves in place.
#ifndef MP_OVERLAP_H_
#define MP_OVERLAP_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "mp/operation.h"

namespace mp {

// Rows of `width` bytes, `pitch` apart.
struct Footprint {
  const char* begin = nullptr;
  int64_t rows = 0;
  int64_t pitch = 0;
  int64_t width = 0;

  bool empty() const { return rows == 0 || width == 0; }
  friend bool operator==(const Footprint& a, const Footprint& b) = default;
  const char* end() const { return empty() ? begin : begin + (rows - 1) * pitch + width; }
};

// Whether the two share a byte.  Exact where the pitches are equal or one has a single row; rows of
// different pitches count as overlapping where their ranges do.
bool Overlap(const Footprint& a, const Footprint& b);

// "" where all is well, else what overlaps, with both ranges.  The operation is fully posted.
std::string FindOverlap(const Operation& operation, absl::Span<const int> ranks);

}  // namespace mp

#endif  // MP_OVERLAP_H_
