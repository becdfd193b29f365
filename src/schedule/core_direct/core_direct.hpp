// Lowers a schedule for a network interface with wait and enable ([Inozemtsev12] 3, 4.1). All sends
// and receives are posted at once and held; one management queue releases them round by round, and
// the host sees only the completion of the last wait.
//
// Each destination has a send queue and each source a receive queue, each with its own completion
// queue, because a wait counts completions and cannot identify messages. Receives without
// dependencies are not held. Copies and reductions that precede every message are in a host queue
// that runs at once; the others, such as Bruck's rotation, are in a host queue that the management
// queue releases.
//
// Rendezvous adds a CTS from receiver to sender for each message, on a pair of queues of its own;
// the sender's management queue waits for the CTS before it releases the send.
#pragma once

#include <span>
#include <string>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::schedule {

struct CoreDirectOptions {
  Transfer transfer = Transfer::eager;
  /// True if an eager buffer holds one block, so that a message of n blocks becomes n sends and n
  /// receives ([Inozemtsev12] table I).
  bool buffer_per_block = true;
};

/// Returns the management-queue form of a schedule. Fails with unsupported for a task other than
/// send, recv, signal, copy and reduce, and if messages to one rank are not listed by ascending
/// slot.
Result<Schedule> lower_to_core_direct(const Schedule& schedule,
                                      const CoreDirectOptions& options = {});

/// Prints lowered schedules side by side, one column a rank and one section a round, like tables I
/// and II of [Inozemtsev12]: receives, sends, waits. `all_tasks` adds what the tables omit: sent
/// CTS, enables, waits for sends, and tasks of the host.
std::string core_direct_table(std::span<const Schedule> lowered, bool all_tasks = false);

}  // namespace tutti::schedule
