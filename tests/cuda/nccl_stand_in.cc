// A libnccl.so.2 of two minds: it notes each call, and answers with a result that no other call
// has. With MP_OLD it lacks one function, as an old NCCL does.

#include <nccl.h>

#include <cstdarg>
#include <cstdio>

namespace {

char last_call[200];

__attribute__((format(printf, 2, 3))) ncclResult_t Note(int result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_call, sizeof(last_call), format, arguments);
  va_end(arguments);
  return static_cast<ncclResult_t>(result);
}

}  // namespace

extern "C" {

const char* StandInLastCall() { return last_call; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 22007;
  return Note(100, "GetVersion");
}
const char* ncclGetErrorString(ncclResult_t result) {
  Note(0, "GetErrorString %d", result);
  return "the stand-in's error";
}
const char* ncclGetLastError(ncclComm_t comm) {
  Note(0, "GetLastError %p", static_cast<void*>(comm));
  return "the stand-in's last error";
}
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int count, const int* devices) {
  return Note(101, "CommInitAll %p %d %p", static_cast<void*>(comm), count,
              static_cast<const void*>(devices));
}
#ifndef MP_OLD
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return Note(102, "CommSplit %p %d %d %p %p", static_cast<void*>(comm), color, key,
              static_cast<void*>(made), static_cast<void*>(config));
}
#endif
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return Note(103, "CommDestroy %p", static_cast<void*>(comm));
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return Note(104, "CommAbort %p", static_cast<void*>(comm));
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return Note(105, "CommGetAsyncError %p %p", static_cast<void*>(comm), static_cast<void*>(error));
}
ncclResult_t ncclGroupStart() { return Note(106, "GroupStart"); }
ncclResult_t ncclGroupEnd() { return Note(107, "GroupEnd"); }
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Note(108, "AllReduce %p %p %zu %d %d %p %p", send, recv, count, type, op,
              static_cast<void*>(comm), static_cast<void*>(stream));
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Note(109, "Reduce %p %p %zu %d %d %d %p %p", send, recv, count, type, op, root,
              static_cast<void*>(comm), static_cast<void*>(stream));
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Note(112, "Send %p %zu %d %d %p %p", send, count, type, peer, static_cast<void*>(comm),
              static_cast<void*>(stream));
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Note(113, "Recv %p %zu %d %d %p %p", recv, count, type, peer, static_cast<void*>(comm),
              static_cast<void*>(stream));
}
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return Note(110, "RedOpCreatePreMulSum %p %p %d %d %p", static_cast<void*>(op), scalar, type,
              residence, static_cast<void*>(comm));
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return Note(111, "RedOpDestroy %d %p", op, static_cast<void*>(comm));
}

}  // extern "C"
