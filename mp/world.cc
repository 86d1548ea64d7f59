#include "mp/world.h"

#include <new>
#include <utility>

#include "mp/base/status.h"
#include "mp/callback.h"
#include "mp/world_state.h"

namespace mp {

int Rank::id() const { return state_->id; }
int Rank::world_size() const { return inside_->size(); }
Device& Rank::device() { return *state_->device; }
Stream& Rank::stream() { return *state_->stream; }
RankRegion& Rank::region() { return region_; }
RankRegion& Rank::region(Axis axis) { return axis_regions_[static_cast<size_t>(axis)]; }

absl::StatusOr<Stream*> Rank::NewStream() {
  MP_RETURN_IF_ERROR(inside_->maker().Check());
  return inside_->NewStream(id());
}

absl::StatusOr<RankRegion> Rank::NewRegion(const std::vector<int>& ranks,
                                           const RegionOptions& options) {
  MP_RETURN_IF_ERROR(inside_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Rank::NewRegion"));
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> group, inside_->JoinGroup(id(), ranks, options));
  return Region(std::move(group)).ForRank(*this);
}

Attachment::~Attachment() {
  if (rank_ != nullptr && rank_->inside_->maker().is_this()) rank_->inside_->Detach(rank_->id());
}

World::World(std::unique_ptr<WorldState> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<World>> World::Create(std::shared_ptr<Backend> backend,
                                                     const WorldOptions& options) {
  if (backend == nullptr) return InvalidArgument("World::Create: no Backend");
  MP_RETURN_IF_ERROR(backend->order().maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Create"));
  MP_RETURN_IF_ERROR(backend->CheckNotLost());
  try {
    std::unique_ptr<World> world(
        new World(std::make_unique<WorldState>(std::move(backend), options)));
    MP_RETURN_IF_ERROR(world->state_->Init(*world));
    return world;
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorKind::kDeviceError, "World::Create: no memory");
  }
}

World::~World() {
  const absl::Status closed = Close();  // once more, if an earlier one ran out of time
  // What still runs uses the ranks' streams and threads: better to keep them than to pull them
  // away.
  if (!closed.ok() || state_->stuck()) static_cast<void>(state_.release());
}

int World::world_size() const { return state_->size(); }
Backend& World::backend() { return state_->backend(); }
Device& World::device(int rank) { return *state_->rank(rank).device; }
Stream& World::stream(int rank) { return *state_->rank(rank).stream; }
const Mesh& World::mesh() const { return state_->mesh(); }
Region& World::region() { return state_->world_region(); }
const std::vector<Region>& World::regions(Axis axis) const { return state_->axis_regions(axis); }

absl::Status World::Run(const std::function<absl::Status(Rank&)>& body) {
  MP_RETURN_IF_ERROR(state_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Run"));
  return state_->Run(body);
}

absl::StatusOr<Attachment> World::Attach(int rank) {
  MP_RETURN_IF_ERROR(state_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Attach"));
  MP_ASSIGN_OR_RETURN(Rank * door, state_->Attach(rank));
  return Attachment(door);
}

absl::StatusOr<Region> World::NewRegion(const std::vector<int>& ranks,
                                        const RegionOptions& options) {
  MP_RETURN_IF_ERROR(state_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::NewRegion"));
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Group> group, state_->NewGroup(ranks, options));
  return Region(std::move(group));
}

absl::Status World::Synchronize(absl::Duration timeout) {
  MP_RETURN_IF_ERROR(state_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Synchronize"));
  return state_->Synchronize(timeout);
}

std::vector<RecentOperation> World::Recent() const {
  if (!state_->maker().is_this()) return {};
  return state_->Recent();
}

WorldHealth World::Health() const {
  const absl::Status status = state_->maker().Check();
  if (status.ok()) return state_->Health();
  WorldHealth health;
  health.state = WorldHealth::State::kClosed;
  health.kind = KindOf(status);
  health.cause = std::string(status.message());
  return health;
}

absl::Status World::Close() {
  MP_RETURN_IF_ERROR(state_->maker().Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Close"));
  return state_->Close();
}

}  // namespace mp
