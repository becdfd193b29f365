#include "engine/schedule/closed_peer.hpp"

#include <cstddef>

#include "tutti/units.hpp"

namespace tutti::engine {

namespace {

/// A closed peer for which this run still waits; kNoRank: none.
Rank awaited_closed_peer(const CloseProtocol& closing, const protocol::ReadyBarrier* barrier,
                         const schedule::Schedule& schedule, const ScheduleWorkspace& run) {
  if (barrier != nullptr) {
    const Rank peer = closing.first_closed(barrier->awaited());
    if (peer != kNoRank) return peer;
  }
  // The state of an arrival does not show additions to a counter. A peer that has added waits for
  // the rank that counts, so it closes only after that rank's task is complete.
  for (std::size_t i = 0; i < run.arrivals.size(); ++i) {
    const schedule::Match& match = schedule.arrivals()[i];
    if (run.arrivals[i].arrived || run.board.is_complete(match.task)) continue;
    if (closing.has_closed(rank_of(match.peer))) return rank_of(match.peer);
  }
  // A rank that adds to a peer's counter also awaits a message of that peer, so the loop above
  // finds that peer.
  for (schedule::TaskIndex t = 0; t < run.departures.size(); ++t) {
    const schedule::Task& task = schedule.tasks()[t];
    const DepartureState& departure = run.departures[t];
    if (task.counted || !departure.issued || departure.clear) continue;
    if (closing.has_closed(task.peer)) return task.peer;
  }
  return kNoRank;
}

}  // namespace

void fail_if_closed(CommunicatorContext& context, const protocol::ReadyBarrier* barrier,
                    const schedule::Schedule& schedule, const ScheduleWorkspace& run) {
  if (!context.closing().any_closed()) return;
  const Rank peer = awaited_closed_peer(context.closing(), barrier, schedule, run);
  if (peer != kNoRank) context.failures().fail_without(peer);
}

}  // namespace tutti::engine
