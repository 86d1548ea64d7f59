// The strided copy's body, and how copies are cut into tiles for its blocks.
//
// A copy is cut into at most three pieces, columns of bytes that move by vectors of one size, and a
// piece into tiles.  A block takes a tile at a time: one thread looks up where it lies, with all
// the divisions, and the others read what it found.
#ifndef MP_CUDA_KERNELS_COPY_INL_H_
#define MP_CUDA_KERNELS_COPY_INL_H_

#include <algorithm>
#include <cstdint>

#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/grid.h"

namespace mp::cuda {

inline constexpr int kCopyThreads = 256;
inline constexpr int64_t kTileVectors = int64_t{4} * kCopyThreads;
inline constexpr int kMostPieces = 32;

struct Piece {
  StridedCopy copy;
  int vector_bytes = 1;      // divides addresses, pitches and the width
  int lanes = 1;             // threads side by side in a row; a power of two
  int64_t tile_columns = 0;  // vectors
  int64_t tile_rows = 0;
  int64_t tiles_in_row = 0;
  int64_t tiles_in_block = 0;
  int64_t first_tile = 0;  // of the launch's
};

// What a thread has to know of its block's tile.
struct Tile {
  const std::byte* from;
  std::byte* to;
  int64_t from_pitch;
  int64_t to_pitch;
  int64_t rows;
  int64_t columns;
  int vector_bytes;
  int lanes;
};

// Host code: the plan -----------------------------------------------------------------------------

// Calls visit(number) for all that addresses and pitches are made of; of pitches only those that
// are walked.
template <class Visit>
void VisitStrides(const StridedCopy& copy, Visit visit) {
  if (copy.height > 1) {
    visit(copy.from.row_pitch);
    visit(copy.to.row_pitch);
  }
  if (copy.depth > 1) {
    visit(copy.from.block_pitch);
    visit(copy.to.block_pitch);
  }
}

inline int64_t Address(const std::byte* data) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
}

// The largest power of two up to kVectorBytes that divides all numbers of which `bits` is the or.
inline int WidestIn(int64_t bits) {
  const int64_t lowest = bits & -bits;
  return lowest == 0 || lowest > kVectorBytes ? kVectorBytes : static_cast<int>(lowest);
}

// The same copy with fewer dimensions, where one goes on where the other ends.
inline StridedCopy Flatten(StridedCopy copy) {
  const auto rows_to_columns = [&copy] {
    if (copy.height > 1 && (copy.from.row_pitch != copy.width || copy.to.row_pitch != copy.width)) {
      return;
    }
    copy.width *= copy.height;
    copy.height = copy.depth;
    copy.depth = 1;
    copy.from.row_pitch = copy.from.block_pitch;
    copy.to.row_pitch = copy.to.block_pitch;
  };
  if (copy.depth == 1 || (copy.from.block_pitch == copy.height * copy.from.row_pitch &&
                          copy.to.block_pitch == copy.height * copy.to.row_pitch)) {
    copy.height *= copy.depth;
    copy.depth = 1;
  }
  rows_to_columns();
  if (copy.depth == 1) rows_to_columns();
  return copy;
}

// `width` bytes of each row, from column `offset` on.
inline Piece PieceOf(StridedCopy copy, int64_t offset, int64_t width) {
  copy.from.data += offset;
  copy.to.data += offset;
  copy.width = width;
  int64_t bits = width | Address(copy.from.data) | Address(copy.to.data);
  VisitStrides(copy, [&bits](int64_t stride) { bits |= stride; });
  Piece piece;
  piece.copy = copy;
  piece.vector_bytes = WidestIn(bits);
  const int64_t columns = width / piece.vector_bytes;
  while (piece.lanes < std::min<int64_t>(columns, kCopyThreads)) piece.lanes *= 2;
  piece.tile_columns = std::min(columns, kTileVectors);
  const int64_t in_lanes = (piece.tile_columns + piece.lanes - 1) / piece.lanes * piece.lanes;
  piece.tile_rows = std::clamp<int64_t>(kTileVectors / in_lanes, 1, copy.height);
  piece.tiles_in_row = (columns + piece.tile_columns - 1) / piece.tile_columns;
  piece.tiles_in_block =
      piece.tiles_in_row * ((copy.height + piece.tile_rows - 1) / piece.tile_rows);
  return piece;
}

// Calls visit(piece) for the pieces of a copy: where source and target are equally far from a
// vector's boundary in each row, what is before the first one and behind the last is cut off.
template <class Visit>
void CutIntoPieces(const StridedCopy& given, Visit visit) {
  const StridedCopy copy = Flatten(given);
  if (copy.width <= 0 || copy.height <= 0 || copy.depth <= 0) return;
  const int64_t from = Address(copy.from.data);
  int64_t bits = from - Address(copy.to.data);
  VisitStrides(copy, [&bits](int64_t stride) { bits |= stride; });
  const int64_t vector = WidestIn(bits);
  const int64_t head = (vector - from % vector) % vector;
  const int64_t middle = (copy.width - head) / vector * vector;
  if (middle <= 0) return visit(PieceOf(copy, 0, copy.width));
  if (head > 0) visit(PieceOf(copy, 0, head));
  visit(PieceOf(copy, head, middle));
  const int64_t tail = copy.width - head - middle;
  if (tail > 0) visit(PieceOf(copy, head + middle, tail));
}

// The body ----------------------------------------------------------------------------------------

struct CopyBody {
  Piece pieces[kMostPieces];
  int count = 0;
  int64_t tiles = 0;

  template <class Grid>
  MP_DEVICE_CODE void operator()(Grid& grid) const {
    Tile& tile = grid.template Shared<Tile>();
    for (int64_t number = grid.block(); number < tiles; number += grid.blocks()) {
      if (grid.thread() == 0) tile = Find(number);
      grid.Barrier();
      Copy(grid, tile);
      grid.Barrier();  // or the next tile would be written over one that is still read
    }
  }

 private:
  MP_DEVICE_CODE Tile Find(int64_t number) const {
    int at = count - 1;
    while (number < pieces[at].first_tile) --at;
    const Piece& piece = pieces[at];
    const StridedCopy& copy = piece.copy;
    number -= piece.first_tile;
    const int64_t block = number / piece.tiles_in_block;
    number -= block * piece.tiles_in_block;
    const int64_t row = number / piece.tiles_in_row * piece.tile_rows;
    const int64_t column = number % piece.tiles_in_row * piece.tile_columns;
    const int64_t rows_left = copy.height - row;
    const int64_t columns_left = copy.width / piece.vector_bytes - column;
    Tile tile;
    tile.from = copy.from.data + block * copy.from.block_pitch + row * copy.from.row_pitch +
                column * piece.vector_bytes;
    tile.to = copy.to.data + block * copy.to.block_pitch + row * copy.to.row_pitch +
              column * piece.vector_bytes;
    tile.from_pitch = copy.from.row_pitch;
    tile.to_pitch = copy.to.row_pitch;
    tile.rows = rows_left < piece.tile_rows ? rows_left : piece.tile_rows;
    tile.columns = columns_left < piece.tile_columns ? columns_left : piece.tile_columns;
    tile.vector_bytes = piece.vector_bytes;
    tile.lanes = piece.lanes;
    return tile;
  }

  template <class Grid>
  static MP_DEVICE_CODE void Copy(Grid& grid, const Tile& tile) {
    switch (tile.vector_bytes) {
      case 16:
        return CopyBy<Pack<uint64_t, 2>>(grid, tile);
      case 8:
        return CopyBy<uint64_t>(grid, tile);
      case 4:
        return CopyBy<uint32_t>(grid, tile);
      case 2:
        return CopyBy<uint16_t>(grid, tile);
      default:
        return CopyBy<uint8_t>(grid, tile);
    }
  }

  template <typename Vector, class Grid>
  static MP_DEVICE_CODE void CopyBy(Grid& grid, const Tile& tile) {
    const int lanes = tile.lanes;
    const int64_t columns = tile.columns;
    const int64_t rows = tile.rows;
    for (int64_t row = grid.thread() / lanes; row < rows; row += grid.threads() / lanes) {
      const auto* from = reinterpret_cast<const Vector*>(tile.from + row * tile.from_pitch);
      auto* to = reinterpret_cast<Vector*>(tile.to + row * tile.to_pitch);
      for (int64_t column = grid.thread() % lanes; column < columns; column += lanes) {
        grid.Store(to + column, grid.Load(from + column));
      }
    }
  }
};

// LaunchCopies, by `launch` (see fold-inl.h).
template <class Launch>
cudaError_t LaunchCopiesBy(const StridedCopy* copies, int count, int most_blocks, Launch launch) {
  CopyBody body;
  const auto flush = [&body, &launch, most_blocks] {
    if (body.count == 0) return cudaSuccess;
    const int64_t blocks = std::clamp<int64_t>(body.tiles, 1, std::max(most_blocks, 1));
    const cudaError_t result = launch(body, static_cast<int>(blocks), kCopyThreads);
    body.count = 0;
    body.tiles = 0;
    return result;
  };
  for (int i = 0; i < count; ++i) {
    if (copies[i].width < 0 || copies[i].height < 0 || copies[i].depth < 0) {
      return cudaErrorInvalidValue;
    }
  }
  cudaError_t result = cudaSuccess;
  for (int i = 0; i < count; ++i) {
    CutIntoPieces(copies[i], [&](Piece piece) {
      if (body.count == kMostPieces && result == cudaSuccess) result = flush();
      if (result != cudaSuccess) return;
      piece.first_tile = body.tiles;
      body.tiles += piece.tiles_in_block * piece.copy.depth;
      body.pieces[body.count++] = piece;
    });
  }
  return result == cudaSuccess ? flush() : result;
}

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_COPY_INL_H_
