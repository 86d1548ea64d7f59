// Copies of rows of bytes: a gather along the last dimension writes every rank's row between those
// of its neighbours.
//
//   // Columns [64, 128) of a row-major f32 matrix with 256 columns:
//   CopyRows(matrix + 64, 256 * 4, block, 64 * 4, 64 * 4, rows, /*streaming=*/false);
//
// | argument | meaning |
// |---|---|
// | pitch | bytes from the start of a row to the start of the next one; any value |
// | row_bytes, rows | 0 or more; only these bytes are written |
// | streaming | writes whole cache lines past the caches: worth it beyond StreamingThresholdBytes()
// |
//
// Any alignment.  Sources and destinations do not overlap.  Streaming stores are complete when the
// call returns.
//
// Threads.   Any; a call touches nothing but its rows.
// Ownership. Nothing is retained.
#ifndef MP_HOST_KERNELS_COPY_H_
#define MP_HOST_KERNELS_COPY_H_

#include <cstdint>

namespace mp::host {

// Copies `rows` rows of `row_bytes`.
void CopyRows(void* dst, int64_t dst_pitch, const void* src, int64_t src_pitch, int64_t row_bytes,
              int64_t rows, bool streaming);

// The same to each of `m` destinations, reading the source once: block by block, while the block
// lies in the first cache.
void CopyRowsToMany(void* const* dsts, int m, int64_t dst_pitch, const void* src, int64_t src_pitch,
                    int64_t row_bytes, int64_t rows, bool streaming);

// The bytes written by one operation, all destinations together, from which streaming stores gain:
// half of the last-level cache, at most 16 MiB (a virtual machine reports its host's).
int64_t StreamingThresholdBytes();

}  // namespace mp::host

#endif  // MP_HOST_KERNELS_COPY_H_
