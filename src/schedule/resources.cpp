#include "schedule/resources.hpp"

#include <algorithm>
#include <set>

namespace tutti::schedule {

namespace {

struct Peers {
  std::set<Rank> destinations;
  std::set<Rank> sources;
};

Peers peers_of(const Schedule& schedule) {
  Peers peers;
  for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
    const Task& task = schedule.tasks()[t];
    if (sends_message(task.kind) || task.kind == TaskKind::write || task.kind == TaskKind::read)
      peers.destinations.insert(task.peer);
    if (task.kind == TaskKind::recv) peers.sources.insert(task.peer);
    for (const Key& key : schedule.keys(t)) peers.sources.insert(key.source);
  }
  return peers;
}

void add_task(const Task& task, const FilledTask& filled, RankUse& use) {
  switch (task.kind) {
    case TaskKind::send:
    case TaskKind::signal:
    case TaskKind::write:
    case TaskKind::multicast:
      ++use.messages_sent;
      use.bytes_sent += filled.source.size_bytes;
      return;
    case TaskKind::recv:
    case TaskKind::collect:
      ++use.posted_receives;
      ++use.messages_received;
      use.bytes_received += filled.target.size_bytes;
      return;
    case TaskKind::read:
      ++use.messages_received;
      use.bytes_received += filled.target.size_bytes;
      return;
    case TaskKind::wait_keys:
      use.messages_received += task.key_count;
      use.bytes_received += task.key_count * filled.target.size_bytes;
      use.bytes_reduced += task.key_count * filled.target.size_bytes;
      return;
    case TaskKind::reduce:
      use.bytes_reduced += filled.target.size_bytes;
      return;
    case TaskKind::copy:
      use.bytes_copied += filled.target.size_bytes;
      return;
    case TaskKind::wait:
    case TaskKind::enable:
      return;
  }
}

}  // namespace

std::uint32_t connections_of(const Schedule& schedule) {
  const Peers peers = peers_of(schedule);
  if (peers.destinations == peers.sources)
    return static_cast<std::uint32_t>(peers.destinations.size());
  return static_cast<std::uint32_t>(peers.destinations.size() + peers.sources.size());
}

Result<std::vector<std::uint64_t>> bytes_by_destination(const Schedule& schedule,
                                                        const Shape& shape) {
  std::vector<FilledTask> filled(schedule.tasks().size());
  if (Status status = fill(schedule, shape, filled); !status) return status;
  std::vector<std::uint64_t> bytes(schedule.ranks());
  for (std::size_t t = 0; t < filled.size(); ++t) {
    const Task& task = schedule.tasks()[t];
    const bool sends = task.kind == TaskKind::send || task.kind == TaskKind::write;
    if (sends && index(task.peer) < bytes.size())
      bytes[index(task.peer)] += filled[t].source.size_bytes;
  }
  return bytes;
}

Result<RankUse> measure(const Schedule& schedule, const Shape& shape) {
  std::vector<FilledTask> filled(schedule.tasks().size());
  if (Status status = fill(schedule, shape, filled); !status) return status;
  RankUse use;
  for (std::size_t t = 0; t < filled.size(); ++t) add_task(schedule.tasks()[t], filled[t], use);
  Peers peers = peers_of(schedule);
  peers.destinations.merge(peers.sources);
  use.peers = static_cast<std::uint32_t>(peers.destinations.size());
  use.connections = connections_of(schedule);
  use.queue_pairs = use.connections * kQueuePairsPerConnection;
  use.scratch_bytes = scratch_bytes(schedule, shape);
  return use;
}

}  // namespace tutti::schedule
