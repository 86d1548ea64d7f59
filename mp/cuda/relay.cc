#include "mp/cuda/relay.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "mp/base/status.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/push_copy.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

constexpr size_t kAlignment = 256;

size_t BytesOf(const Push& push) { return push.width * push.height * push.depth; }

size_t Ceiling(size_t value, size_t unit) { return (value + unit - 1) / unit; }

bool IsContiguous(const Push& push, const Push::Side& side) {
  const bool rows = push.height * push.depth == 1 || side.pitch == push.width;
  return rows && (push.depth == 1 || side.rows == push.height);
}

// A shard cut into pieces that fit into a slot: of several blocks, else of several rows of one
// block, else of a part of one row.  One that needs no slot stays whole.
struct Cut {
  size_t blocks, rows, columns;                    // of a piece, at most
  size_t block_pieces, row_pieces, column_pieces;  // how many there are

  Cut(const Push& push, size_t slot_bytes) {
    const bool direct = push.source == push.target ||
                        (IsContiguous(push, push.from) && IsContiguous(push, push.to));
    const size_t slot = direct ? BytesOf(push) : slot_bytes;
    columns = std::min(push.width, slot);
    rows = columns < push.width ? 1 : std::clamp<size_t>(slot / columns, 1, push.height);
    const bool whole_blocks = columns == push.width && rows == push.height;
    blocks = whole_blocks ? std::clamp<size_t>(slot / (columns * rows), 1, push.depth) : 1;
    block_pieces = Ceiling(push.depth, blocks);
    row_pieces = Ceiling(push.height, rows);
    column_pieces = Ceiling(push.width, columns);
  }
  size_t pieces() const { return block_pieces * row_pieces * column_pieces; }
};

// One piece of a push; sides begin where the piece does.
Push PieceOf(const Push& push, const Cut& cut, size_t piece) {
  const size_t column = piece % cut.column_pieces * cut.columns;
  const size_t row = piece / cut.column_pieces % cut.row_pieces * cut.rows;
  const size_t block = piece / cut.column_pieces / cut.row_pieces * cut.blocks;
  Push part = push;
  for (Push::Side* side : {&part.from, &part.to}) {
    side->data += (block * side->rows + row) * side->pitch + column;
  }
  part.width = std::min(cut.columns, push.width - column);
  part.height = std::min(cut.rows, push.height - row);
  part.depth = std::min(cut.blocks, push.depth - block);
  return part;
}

StridedCopy Copy(Push push, const Push::Side& from, const Push::Side& to) {
  push.from = from;
  push.to = to;
  return CopyOf(push);
}

// The piece in a slot.
Push::Side Packed(const Push& push, std::byte* slot) { return {slot, push.width, push.height}; }

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::Create(std::vector<Device*> devices,
                                                     std::vector<ncclComm_t> comms, size_t bytes) {
  const size_t slot = std::max(bytes / (devices.size() + 1) / kAlignment, size_t{1}) * kAlignment;
  std::unique_ptr<Relay> relay(new Relay(std::move(devices), std::move(comms), slot));
  MP_RETURN_IF_ERROR(relay->Open());
  return relay;
}

absl::Status Relay::Open() {
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  std::vector<cudaStream_t> streams;
  for (size_t peer = 0; peer < devices_.size(); ++peer) {
    Device& device = *devices_[peer];
    void* memory = nullptr;
    MP_RETURN_IF_ERROR(MP_CUDA(cudaSetDevice(device.ordinal())));
    MP_RETURN_IF_ERROR(MP_CUDA(cudaMalloc(&memory, slot_ * (devices_.size() + 1))));
    workspaces_[peer] = static_cast<std::byte*>(memory);
    streams.push_back(device.warm_up_stream().handle());
    MP_RETURN_IF_ERROR(device.TakeTurn(device.warm_up_stream()));
  }
  // A byte from everyone to everyone: NCCL connects two ranks when they first speak to each other.
  std::vector<Push> pushes;
  for (size_t source = 0; source < devices_.size(); ++source) {
    for (size_t target = 0; target < devices_.size(); ++target) {
      if (source == target) continue;
      Push push;
      push.source = static_cast<int>(source);
      push.target = static_cast<int>(target);
      push.width = push.height = push.depth = 1;
      push.from = {SendSlot(source), 1, 1};
      push.to = {ReceiveSlot(target, source), 1, 1};
      pushes.push_back(push);
    }
  }
  MP_RETURN_IF_ERROR(Enqueue(pushes, streams));
  for (Device* device : devices_) {
    MP_RETURN_IF_ERROR(device->EndTurn(device->warm_up_stream()));
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamSynchronize(device->warm_up_stream().handle())));
  }
  return absl::OkStatus();
}

Relay::~Relay() {
  CurrentDevice current;
  for (size_t peer = 0; peer < devices_.size(); ++peer) {
    if (workspaces_[peer] == nullptr) continue;
    cudaSetDevice(devices_[peer]->ordinal());
    cudaFree(workspaces_[peer]);
  }
}

absl::Status Relay::Enqueue(absl::Span<const Push> pushes, absl::Span<const cudaStream_t> streams) {
  for (auto* copies : {&packs_, &unpacks_}) {
    for (auto& of_peer : *copies) of_peer.clear();  // what an error left
  }
  size_t pieces = 0;
  for (const Push& push : pushes) pieces = std::max(pieces, Cut(push, slot_).pieces());
  for (size_t piece = 0; piece < pieces; ++piece) {
    MP_RETURN_IF_ERROR(EnqueuePiece(pushes, piece, streams));
  }
  return absl::OkStatus();
}

absl::Status Relay::EnqueuePiece(absl::Span<const Push> pushes, size_t piece,
                                 absl::Span<const cudaStream_t> streams) {
  transfers_.clear();
  int packed = -1;  // whose piece lies in its slot
  for (const Push& push : pushes) {
    const Cut cut(push, slot_);
    if (piece >= cut.pieces()) continue;
    const Push part = PieceOf(push, cut, piece);
    const auto source = static_cast<size_t>(push.source);
    const auto target = static_cast<size_t>(push.target);
    if (source == target) {
      packs_[source].push_back(Copy(part, part.from, part.to));
      continue;
    }
    Transfer transfer = {part.from.data, part.to.data, BytesOf(part), source, target};
    if (!IsContiguous(part, part.from)) {
      const Push::Side slot = Packed(part, SendSlot(source));
      if (packed != push.source) packs_[source].push_back(Copy(part, part.from, slot));
      packed = push.source;
      transfer.from = slot.data;
    }
    if (!IsContiguous(part, part.to)) {
      const Push::Side slot = Packed(part, ReceiveSlot(target, source));
      unpacks_[target].push_back(Copy(part, slot, part.to));
      transfer.to = slot.data;
    }
    transfers_.push_back(transfer);
  }
  MP_RETURN_IF_ERROR(Launch(packs_, streams));
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (const Transfer& it : transfers_) {
    if (status.ok()) {
      status = MP_CUDA(ncclSend(it.from, it.bytes, ncclUint8, static_cast<int>(it.target),
                                comms_[it.source], streams[it.source]));
    }
    if (status.ok()) {
      status = MP_CUDA(ncclRecv(it.to, it.bytes, ncclUint8, static_cast<int>(it.source),
                                comms_[it.target], streams[it.target]));
    }
  }
  const absl::Status end = MP_CUDA(ncclGroupEnd());
  if (status.ok()) status = end;
  MP_RETURN_IF_ERROR(status);
  return Launch(unpacks_, streams);
}

// And forgets them.
absl::Status Relay::Launch(std::vector<std::vector<StridedCopy>>& copies,
                           absl::Span<const cudaStream_t> streams) {
  absl::Status status;
  for (size_t peer = 0; peer < copies.size(); ++peer) {
    if (copies[peer].empty()) continue;
    const int count = static_cast<int>(copies[peer].size());
    if (status.ok()) status = MP_CUDA(cudaSetDevice(devices_[peer]->ordinal()));
    if (status.ok()) status = MP_CUDA(LaunchCopies(copies[peer].data(), count, streams[peer]));
    copies[peer].clear();
  }
  return status;
}

}  // namespace mp::cuda
