#include "tests/support/allocations.h"

#include <malloc.h>

#include <cerrno>
#include <cstddef>

#include "mp/base/sync.h"

// glibc's own, under the names that it keeps for programs with a malloc of their own.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace mp::test {
namespace {

constinit sync::Atomic<int64_t> count{0}, live{0}, peak{0};

bool (*excused)() = nullptr;
constinit thread_local int64_t of_thread = 0;

void* Note(void* memory) {
  if (memory == nullptr) return nullptr;
  if (excused == nullptr || !excused()) {
    count.fetch_add(1, sync::kRelaxed);
    ++of_thread;
  }
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = live.fetch_add(bytes, sync::kRelaxed) + bytes;
  int64_t most = peak.load(sync::kRelaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, sync::kRelaxed)) {
  }
  return memory;
}

void Forget(void* memory) {
  live.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), sync::kRelaxed);
}

}  // namespace

int64_t AllocationCount() { return count.load(); }
int64_t AllocationsOfThread() { return of_thread; }
void ExcuseAllocations(bool (*when)()) { excused = when; }
int64_t LiveBytes() { return live.load(); }
int64_t PeakBytes() { return peak.load(); }
void ResetPeakBytes() { peak.store(live.load()); }

}  // namespace mp::test

using mp::test::Forget;
using mp::test::Note;

extern "C" {

void* malloc(size_t bytes) { return Note(__libc_malloc(bytes)); }
void* calloc(size_t items, size_t bytes) { return Note(__libc_calloc(items, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return Note(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* const block = memalign(alignment, bytes);
  if (block == nullptr) return ENOMEM;
  *memory = block;
  return 0;
}

void* realloc(void* memory, size_t bytes) {
  const size_t before = malloc_usable_size(memory);
  void* const block = __libc_realloc(memory, bytes);
  if (block != nullptr || bytes == 0) {
    mp::test::live.fetch_sub(static_cast<int64_t>(before), mp::sync::kRelaxed);
  }
  return Note(block);
}

void free(void* memory) {
  Forget(memory);
  __libc_free(memory);
}

}  // extern "C"
