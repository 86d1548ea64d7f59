// What instrumented code calls (see race.h): the functions of the thread sanitizer's interface, the
// allocation functions, and the standard ones that move memory.

#include <malloc.h>
#include <sys/single_threaded.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>

#include "tests/explore/engine.h"
#include "tests/explore/race.h"

namespace mp::explore {
namespace {

// The library counts references with plain operations until it sees a second thread.
const bool kSeveralThreads = [] {
  __libc_single_threaded = 0;
  return true;
}();

// What the standard library's own atomics carry, in the run that is on.
VectorClock& Carried(const volatile void* address) {
  static auto* carried = new std::unordered_map<const volatile void*, VectorClock>;
  static uint64_t run = 0;
  if (run != Engine::Current()->run()) carried->clear();
  run = Engine::Current()->run();
  return (*carried)[address];
}

// In the numbers of the interface: 0 relaxed, 2 acquire, 3 release, 4 both, 5 sequential.
void NoteAtomic(const volatile void* address, int order, bool reads, bool writes) {
  Engine* const engine = Engine::Current();
  if (engine == nullptr || Quiet::on()) return;
  const Quiet quiet;
  VectorClock& carried = Carried(address);
  VectorClock& clock = engine->clock();
  if (reads && order != 0 && order != 3) clock.Join(carried);
  if (writes && order >= 3) {
    ++clock[engine->self()];
    carried.Join(clock);
  }
}

void* Allocate(size_t bytes, size_t alignment) {
  void* const data =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  ForgetAccesses(data, bytes);
  return data;
}

// To free is to write: whoever has used it must have been before.
void Release(void* data, size_t bytes, const void* place) {
  NoteAccess(data, bytes, true, place);
  std::free(data);
}

}  // namespace
}  // namespace mp::explore

using mp::explore::Allocate;
using mp::explore::NoteAccess;
using mp::explore::NoteAtomic;
using mp::explore::Release;

void* operator new(size_t bytes) { return Allocate(bytes, 0); }
void* operator new[](size_t bytes) { return Allocate(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t bytes) noexcept {
  Release(data, bytes, __builtin_return_address(0));
}
void operator delete[](void* data, size_t bytes) noexcept {
  Release(data, bytes, __builtin_return_address(0));
}
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t bytes, std::align_val_t) noexcept {
  Release(data, bytes, __builtin_return_address(0));
}
void operator delete[](void* data, size_t bytes, std::align_val_t) noexcept {
  Release(data, bytes, __builtin_return_address(0));
}

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define MP_ACCESSES(bytes)                                       \
  void __tsan_read##bytes(void* data) {                          \
    NoteAccess(data, bytes, false, __builtin_return_address(0)); \
  }                                                              \
  void __tsan_write##bytes(void* data) {                         \
    NoteAccess(data, bytes, true, __builtin_return_address(0));  \
  }                                                              \
  void __tsan_volatile_read##bytes(void* data) {                 \
    NoteAccess(data, bytes, false, __builtin_return_address(0)); \
  }                                                              \
  void __tsan_volatile_write##bytes(void* data) {                \
    NoteAccess(data, bytes, true, __builtin_return_address(0));  \
  }                                                              \
  void __tsan_unaligned_read##bytes(void* data) {                \
    NoteAccess(data, bytes, false, __builtin_return_address(0)); \
  }                                                              \
  void __tsan_unaligned_write##bytes(void* data) {               \
    NoteAccess(data, bytes, true, __builtin_return_address(0));  \
  }
MP_ACCESSES(1)
MP_ACCESSES(2)
MP_ACCESSES(4)
MP_ACCESSES(8)
MP_ACCESSES(16)

void __tsan_read_range(void* data, size_t bytes) {
  NoteAccess(data, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* data, size_t bytes) {
  NoteAccess(data, bytes, true, __builtin_return_address(0));
}
void __tsan_vptr_read(void** data) {
  NoteAccess(data, sizeof *data, false, __builtin_return_address(0));
}
void __tsan_vptr_update(void** data, void* value) {
  if (*data != value) NoteAccess(data, sizeof *data, true, __builtin_return_address(0));
}

#define MP_UPDATE(bits, type, name, builtin)                                      \
  type __tsan_atomic##bits##_##name(volatile type* data, type value, int order) { \
    NoteAtomic(data, order, true, true);                                          \
    return builtin(data, value, __ATOMIC_SEQ_CST);                                \
  }
#define MP_ATOMICS(bits, type)                                                                   \
  type __tsan_atomic##bits##_load(const volatile type* data, int order) {                        \
    NoteAtomic(data, order, true, false);                                                        \
    return __atomic_load_n(data, __ATOMIC_SEQ_CST);                                              \
  }                                                                                              \
  void __tsan_atomic##bits##_store(volatile type* data, type value, int order) {                 \
    NoteAtomic(data, order, false, true);                                                        \
    __atomic_store_n(data, value, __ATOMIC_SEQ_CST);                                             \
  }                                                                                              \
  MP_UPDATE(bits, type, exchange, __atomic_exchange_n)                                           \
  MP_UPDATE(bits, type, fetch_add, __atomic_fetch_add)                                           \
  MP_UPDATE(bits, type, fetch_sub, __atomic_fetch_sub)                                           \
  MP_UPDATE(bits, type, fetch_and, __atomic_fetch_and)                                           \
  MP_UPDATE(bits, type, fetch_or, __atomic_fetch_or)                                             \
  MP_UPDATE(bits, type, fetch_xor, __atomic_fetch_xor)                                           \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile type* data, type* expected,        \
                                                     type value, int order, int) {               \
    NoteAtomic(data, order, true, true);                                                         \
    return __atomic_compare_exchange_n(data, expected, value, false, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST);                                        \
  }                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile type* data, type* expected,          \
                                                   type value, int order, int failure) {         \
    return __tsan_atomic##bits##_compare_exchange_strong(data, expected, value, order, failure); \
  }
MP_ATOMICS(8, uint8_t)
MP_ATOMICS(16, uint16_t)
MP_ATOMICS(32, uint32_t)
MP_ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

// The linker puts these in the place of the standard ones (--wrap).
void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __real_memmove(void* to, const void* from, size_t bytes);
void* __real_memset(void* to, int value, size_t bytes);

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  NoteAccess(from, bytes, false, __builtin_return_address(0));
  NoteAccess(to, bytes, true, __builtin_return_address(0));
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  NoteAccess(from, bytes, false, __builtin_return_address(0));
  NoteAccess(to, bytes, true, __builtin_return_address(0));
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, size_t bytes) {
  NoteAccess(to, bytes, true, __builtin_return_address(0));
  return __real_memset(to, value, bytes);
}

}  // extern "C"
