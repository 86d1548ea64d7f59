// NCCL for programs that start where there is none: the functions of NCCL that mp and its tests
// call, which look for libnccl.so.2 when the first of them is called.
//
// The library is the file that MP_NCCL_LIBRARY names, else the one that the dynamic linker finds.
// Without it every call answers ncclSystemError, and ncclGetLastError says what was not found.
// A call that is not among these is an error of the linker: add it.
//
// Threads. Any.

#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <string>

namespace mp::cuda {
namespace {

#define MP_NCCL_FUNCTIONS(X)  \
  X(ncclGetVersion)           \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclCommInitAll)          \
  X(ncclCommSplit)            \
  X(ncclCommDestroy)          \
  X(ncclCommAbort)            \
  X(ncclCommGetAsyncError)    \
  X(ncclGroupStart)           \
  X(ncclGroupEnd)             \
  X(ncclAllReduce)            \
  X(ncclReduce)               \
  X(ncclSend)                 \
  X(ncclRecv)                 \
  X(ncclRedOpCreatePreMulSum) \
  X(ncclRedOpDestroy)

struct Library {
  std::string missing;  // what; empty where all is there
#define MP_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  MP_NCCL_FUNCTIONS(MP_NCCL_MEMBER)
#undef MP_NCCL_MEMBER
};

template <typename Function>
void Find(void* opened, const std::string& file, const char* name, Function& function,
          std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(opened, name));
  if (function != nullptr || !missing.empty()) return;
  missing = file + " has no " + name + ": NCCL 2.18 or newer is needed";
}

Library Load() {
  const char* named = std::getenv("MP_NCCL_LIBRARY");
  const bool is_named = named != nullptr && *named != '\0';
  const std::string file = is_named ? named : "libnccl.so.2";
  Library library;
  void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* reason = dlerror();
    library.missing = reason != nullptr ? reason : file + " cannot be loaded";
    library.missing += is_named ? " (named by MP_NCCL_LIBRARY)"
                                : "; install NCCL, or name its file in MP_NCCL_LIBRARY";
    return library;
  }
#define MP_NCCL_FIND(name) Find(opened, file, #name, library.name, library.missing);
  MP_NCCL_FUNCTIONS(MP_NCCL_FIND)
#undef MP_NCCL_FIND
  return library;
}

const Library& Nccl() {
  static const Library* const library = new Library(Load());  // for the rest of the process
  return *library;
}

template <auto kFunction, typename... Arguments>
ncclResult_t Call(Arguments... arguments) {
  const Library& nccl = Nccl();
  return nccl.missing.empty() ? (nccl.*kFunction)(arguments...) : ncclSystemError;
}

}  // namespace
}  // namespace mp::cuda

using mp::cuda::Call;
using mp::cuda::Library;
using mp::cuda::Nccl;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  if (!Nccl().missing.empty()) return "NCCL is missing";
  return Nccl().ncclGetErrorString(result);
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (!Nccl().missing.empty()) return Nccl().missing.c_str();
  return Nccl().ncclGetLastError(comm);
}

ncclResult_t ncclGetVersion(int* version) { return Call<&Library::ncclGetVersion>(version); }

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return Call<&Library::ncclCommInitAll>(comm, ndev, devlist);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return Call<&Library::ncclCommSplit>(comm, color, key, newcomm, config);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return Call<&Library::ncclCommDestroy>(comm); }

ncclResult_t ncclCommAbort(ncclComm_t comm) { return Call<&Library::ncclCommAbort>(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return Call<&Library::ncclCommGetAsyncError>(comm, error);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Call<&Library::ncclSend>(sendbuff, count, datatype, peer, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Call<&Library::ncclRecv>(recvbuff, count, datatype, peer, comm, stream);
}

ncclResult_t ncclGroupStart() { return Call<&Library::ncclGroupStart>(); }

ncclResult_t ncclGroupEnd() { return Call<&Library::ncclGroupEnd>(); }

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Call<&Library::ncclAllReduce>(send, recv, count, type, op, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Call<&Library::ncclReduce>(send, recv, count, type, op, root, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return Call<&Library::ncclRedOpCreatePreMulSum>(op, scalar, type, residence, comm);
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return Call<&Library::ncclRedOpDestroy>(op, comm);
}

}  // extern "C"
