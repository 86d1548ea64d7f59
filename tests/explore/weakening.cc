#include "tests/explore/weakening.h"

#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/explore/cell.h"

namespace mp::explore {
namespace {

using Place = std::tuple<std::string, uint32_t, uint32_t, Access, Part>;

const Weakening* weakened = nullptr;
bool met = false;
bool notes = false;

std::set<Place>& Places() {
  static auto* places = new std::set<Place>;
  return *places;
}

// The compiler puts "./" before some.
absl::string_view FileOf(const Site& site) {
  absl::string_view file = site.file_name();
  if (absl::StartsWith(file, "./")) file.remove_prefix(2);
  return file;
}

Effect Plain(Order order, Access access) {
  Effect effect;
  effect.sequential = order == Order::kSeqCst;
  const bool both = effect.sequential || order == Order::kAcqRel;
  effect.acquires = access != Access::kStore && (both || order == Order::kAcquire);
  effect.releases =
      (access == Access::kStore || access == Access::kUpdate) && (both || order == Order::kRelease);
  return effect;
}

void Remember(const Effect& effect, Access access, const Site& site) {
  const auto note = [&](bool has, Part part) {
    if (has) Places().insert({std::string(FileOf(site)), site.line(), site.column(), access, part});
  };
  note(effect.acquires, Part::kAcquire);
  note(effect.releases, Part::kRelease);
  note(effect.sequential, Part::kSequential);
}

}  // namespace

std::string Describe(const Weakening& weakening) {
  constexpr const char* kAccesses[] = {"load", "store", "update", "failed update"};
  constexpr const char* kParts[] = {"acquire", "release", "one order of all"};
  return absl::StrCat(weakening.file, ":", weakening.line, ":", weakening.column, " ",
                      kAccesses[static_cast<size_t>(weakening.access)], " without ",
                      kParts[static_cast<size_t>(weakening.part)]);
}

Effect EffectOf(Order order, Access access, const Site& site) {
  Effect effect = Plain(order, access);
  if (notes) Remember(effect, access, site);
  if (weakened == nullptr || weakened->line != site.line() || weakened->column != site.column() ||
      weakened->access != access || weakened->file != FileOf(site)) {
    return effect;
  }
  met = true;
  effect.sequential = false;
  if (weakened->part == Part::kAcquire) effect.acquires = false;
  if (weakened->part == Part::kRelease) effect.releases = false;
  return effect;
}

void Weaken(const Weakening* weakening) {
  weakened = weakening;
  met = false;
}

bool WeakenedPlaceWasMet() { return met; }

void NoteOrders(bool on) { notes = on; }

std::vector<Weakening> PossibleWeakenings(const std::string& prefix) {
  std::vector<Weakening> all;
  for (const auto& [file, line, column, access, part] : Places()) {
    if (!file.starts_with(prefix)) continue;
    all.push_back({file, line, column, access, part});
  }
  return all;
}

}  // namespace mp::explore
