#include "mp/host/kernels/copy.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/host/kernels/copy.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The width of a row is looked at once, and then every row is copied by the same few loads and
// stores: no call and no branch of its own.  Where words do not divide a row, the last one is
// moved back to end with it.

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLineBytes = 64;
constexpr int64_t kVectorBytes = HWY_TARGET == HWY_SCALAR ? 1 : std::min(HWY_MAX_BYTES, 64);

struct Rows {
  uint8_t* to;
  int64_t to_pitch;
  const uint8_t* from;
  int64_t from_pitch;
  int64_t bytes;
  int64_t count;

  template <class CopyRow>
  HWY_INLINE void ForEach(CopyRow copy_row) const {
    uint8_t* row_to = to;
    const uint8_t* row_from = from;
    for (int64_t left = count; left > 0; --left) {
      copy_row(row_to, row_from);
      row_to += to_pitch;
      row_from += from_pitch;
    }
  }
};

template <typename Word>
HWY_INLINE void CopyWord(uint8_t* to, const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof(Word));
  std::memcpy(to, &word, sizeof(Word));
}

// Rows of one word to two.
template <typename Word>
void CopyWords(const Rows& rows) {
  const int64_t last = rows.bytes - static_cast<int64_t>(sizeof(Word));
  rows.ForEach([last](uint8_t* to, const uint8_t* from) HWY_ATTR {
    CopyWord<Word>(to, from);
    CopyWord<Word>(to + last, from + last);
  });
}

template <int64_t kBytes>
HWY_INLINE void CopyVector(uint8_t* to, const uint8_t* from) {
  const hn::CappedTag<uint8_t, kBytes> d;
  hn::StoreU(hn::LoadU(d, from), d, to);
}

// Rows of more than kCount - 1 vectors and at most kCount.
template <int64_t kBytes, int kCount>
void CopyVectors(const Rows& rows) {
  const int64_t last = rows.bytes - kBytes;
  rows.ForEach([last](uint8_t* to, const uint8_t* from) HWY_ATTR {
    if constexpr (kCount > 1) CopyVector<kBytes>(to, from);
    if constexpr (kCount > 2) CopyVector<kBytes>(to + kBytes, from + kBytes);
    if constexpr (kCount > 3) CopyVector<kBytes>(to + 2 * kBytes, from + 2 * kBytes);
    CopyVector<kBytes>(to + last, from + last);
  });
}

// Rows of more than four vectors, with whole vectors at multiples of their size in `to`.
void CopyLong(const Rows& rows) {
  constexpr int64_t kBytes = kVectorBytes;
  rows.ForEach([bytes = rows.bytes](uint8_t* to, const uint8_t* from) HWY_ATTR {
    CopyVector<kBytes>(to, from);
    int64_t i = kBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kBytes);
    for (; bytes - i > 4 * kBytes; i += 4 * kBytes) {
      CopyVector<kBytes>(to + i, from + i);
      CopyVector<kBytes>(to + i + kBytes, from + i + kBytes);
      CopyVector<kBytes>(to + i + 2 * kBytes, from + i + 2 * kBytes);
      CopyVector<kBytes>(to + i + 3 * kBytes, from + i + 3 * kBytes);
    }
    for (; bytes - i > kBytes; i += kBytes) CopyVector<kBytes>(to + i, from + i);
    CopyVector<kBytes>(to + bytes - kBytes, from + bytes - kBytes);
  });
}

void CopyByMemcpy(const Rows& rows) {
  rows.ForEach([bytes = rows.bytes](uint8_t* to, const uint8_t* from)
                   HWY_ATTR { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}

// Rows of `kBytes` or more.
template <int64_t kBytes>
void CopyFromVector(const Rows& rows) {
  if constexpr (kBytes < kVectorBytes) {
    if (rows.bytes >= 2 * kBytes) return CopyFromVector<2 * kBytes>(rows);
  }
  switch ((rows.bytes - 1) / kBytes) {
    case 0:
      return CopyVectors<kBytes, 1>(rows);
    case 1:
      return CopyVectors<kBytes, 2>(rows);
    case 2:
      return CopyVectors<kBytes, 3>(rows);
    case 3:
      return CopyVectors<kBytes, 4>(rows);
    default:
      return CopyLong(rows);
  }
}

void CopyCached(const Rows& rows) {
  // Beyond the first cache the C library knows the machine better.
  constexpr int64_t kMemcpyFromBytes = 16 * 1024;
  if (rows.bytes >= kMemcpyFromBytes) return CopyByMemcpy(rows);
  if (rows.bytes >= 16) {
    if constexpr (kVectorBytes >= 16) return CopyFromVector<16>(rows);
    return CopyByMemcpy(rows);
  }
  if (rows.bytes >= 8) return CopyWords<uint64_t>(rows);
  if (rows.bytes >= 4) return CopyWords<uint32_t>(rows);
  if (rows.bytes >= 2) return CopyWords<uint16_t>(rows);
  if (rows.bytes == 1) return CopyWords<uint8_t>(rows);
}

HWY_INLINE void StreamLine(uint8_t* to, const uint8_t* from) {
  const hn::CappedTag<uint8_t, kVectorBytes> d;
  HWY_UNROLL(4)
  for (int64_t i = 0; i < kLineBytes; i += kVectorBytes) {
    hn::Stream(hn::LoadU(d, from + i), d, to + i);
  }
}

// Whole lines of `to` by streaming stores, and what is before and after them by ordinary ones: a
// line should see only one kind.
void CopyStreaming(const Rows& rows) {
  rows.ForEach([bytes = rows.bytes](uint8_t* to, const uint8_t* from) HWY_ATTR {
    int64_t i = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % kLineBytes);
    i = std::min(i, bytes);
    CopyCached({to, 0, from, 0, i, 1});
    for (; bytes - i >= kLineBytes; i += kLineBytes) StreamLine(to + i, from + i);
    CopyCached({to + i, 0, from + i, 0, bytes - i, 1});
  });
}

void Copy(void* dst, int64_t dst_pitch, const void* src, int64_t src_pitch, int64_t row_bytes,
          int64_t rows, bool streaming) {
  Rows all = {static_cast<uint8_t*>(dst),
              dst_pitch,
              static_cast<const uint8_t*>(src),
              src_pitch,
              row_bytes,
              rows};
  if (row_bytes == dst_pitch && row_bytes == src_pitch) {
    all.bytes *= rows;
    all.count = 1;
  }
  if (kVectorBytes >= 16 && !HWY_HAVE_SCALABLE && streaming) return CopyStreaming(all);
  CopyCached(all);
}

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::host {
namespace {

// Read by the first store and in the first cache for the others.
constexpr int64_t kBlockBytes = 8 * 1024;

HWY_EXPORT(Copy);

// Copies one block of rows to all destinations, `offset` bytes into each.
void CopyBlock(void* const* dsts, int m, int64_t offset, int64_t dst_pitch, const uint8_t* src,
               int64_t src_pitch, int64_t row_bytes, int64_t rows, bool streaming) {
  for (int k = 0; k < m; ++k) {
    HWY_DYNAMIC_DISPATCH(Copy)
    (static_cast<uint8_t*>(dsts[k]) + offset, dst_pitch, src, src_pitch, row_bytes, rows,
     streaming);
  }
}

int64_t LastLevelCacheBytes() {
  constexpr int64_t kUnknown = 32 << 20;
#if defined(_SC_LEVEL3_CACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const int64_t bytes = sysconf(level); bytes > 0) return bytes;
  }
#endif
  return kUnknown;
}

}  // namespace

void CopyRows(void* dst, int64_t dst_pitch, const void* src, int64_t src_pitch, int64_t row_bytes,
              int64_t rows, bool streaming) {
  if (row_bytes <= 0 || rows <= 0) return;
  HWY_DYNAMIC_DISPATCH(Copy)(dst, dst_pitch, src, src_pitch, row_bytes, rows, streaming);
  if (streaming) hwy::FlushStream();
}

void CopyRowsToMany(void* const* dsts, int m, int64_t dst_pitch, const void* src, int64_t src_pitch,
                    int64_t row_bytes, int64_t rows, bool streaming) {
  if (row_bytes <= 0 || rows <= 0 || m <= 0) return;
  if (row_bytes == dst_pitch && row_bytes == src_pitch) {
    row_bytes *= rows;
    rows = 1;
  }
  const uint8_t* from = static_cast<const uint8_t*>(src);
  if (row_bytes <= kBlockBytes) {
    const int64_t step = kBlockBytes / row_bytes;
    for (int64_t row = 0; row < rows; row += step) {
      CopyBlock(dsts, m, row * dst_pitch, dst_pitch, from + row * src_pitch, src_pitch, row_bytes,
                std::min(step, rows - row), streaming);
    }
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t to = row * dst_pitch;
      // The first block ends with a cache line of the first destination.
      const uintptr_t address = reinterpret_cast<uintptr_t>(dsts[0]) + static_cast<uintptr_t>(to);
      int64_t size = kBlockBytes - static_cast<int64_t>(address % 64);
      for (int64_t i = 0; i < row_bytes; i += size, size = kBlockBytes) {
        size = std::min(size, row_bytes - i);
        CopyBlock(dsts, m, to + i, size, from + row * src_pitch + i, size, size, 1, streaming);
      }
    }
  }
  if (streaming) hwy::FlushStream();
}

int64_t StreamingThresholdBytes() {
  constexpr int64_t kLargestCache = 32 << 20;
  static const int64_t threshold = std::min(LastLevelCacheBytes(), kLargestCache) / 2;
  return threshold;
}

}  // namespace mp::host
#endif  // HWY_ONCE
