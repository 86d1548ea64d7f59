// What the copies of a Graph share.  Internal.
#ifndef MP_GRAPH_HANDLE_H_
#define MP_GRAPH_HANDLE_H_

#include <memory>
#include <utility>

#include "mp/group.h"
#include "mp/recording.h"

namespace mp {

struct GraphHandle {
  GraphHandle(std::shared_ptr<Group> of, RecordedGraph& recorded)
      : group(std::move(of)), graph(recorded) {}
  ~GraphHandle() { group->LetGo(graph); }
  GraphHandle(const GraphHandle&) = delete;
  GraphHandle& operator=(const GraphHandle&) = delete;

  const std::shared_ptr<Group> group;
  RecordedGraph& graph;
};

}  // namespace mp

#endif  // MP_GRAPH_HANDLE_H_
