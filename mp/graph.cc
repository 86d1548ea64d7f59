#include "mp/graph.h"

#include "mp/base/status.h"
#include "mp/graph_handle.h"
#include "mp/world.h"

namespace mp {

absl::Status Graph::Launch() const {
  if (handle_ == nullptr) return UsageError("Launch of a Graph that is none");
  return handle_->group->Launch(peer_, handle_->graph);
}

absl::StatusOr<Graph> Graph::ForRank(const Rank& rank) const {
  if (handle_ == nullptr) return UsageError("ForRank of a Graph that is none");
  const int peer = handle_->group->PeerOf(*rank.state_);
  if (peer < 0) {
    return InvalidArgument("a Graph of Region \"", handle_->group->name(), "\": rank ", rank.id(),
                           " is not a member");
  }
  return Graph(handle_, peer);
}

}  // namespace mp
