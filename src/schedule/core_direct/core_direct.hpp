// Lowers a schedule to queues for a network interface that carries out waits and enables
// ([Inozemtsev12] 3, 4.1). The host posts all sends and receives at once. One management queue
// releases them round by round, and the host sees only the completion of the last wait. In each
// queue, the receives before the first one that has dependencies do not wait for their round.
//
// Every queue except the management queue has a completion queue of its own, because a wait counts
// completions and cannot identify messages. Copies and reductions that depend on no message are in
// a host queue that runs at once; the others are in a host queue that the management queue
// releases.
//
// For rendezvous, each receiver sends a CTS message through separate queues; the sender's
// management queue waits for this CTS before it releases the send.
#pragma once

#include <span>
#include <string>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::schedule {

struct CoreDirectOptions {
  Transfer transfer = Transfer::eager;
  /// True if each eager buffer has room for one block only, so that a message of n blocks becomes n
  /// sends and n receives ([Inozemtsev12] table I).
  bool buffer_per_block = true;
};

/// Returns the management-queue form of a schedule. Fails with unsupported if a task is not a send,
/// recv, signal, copy or reduce. The messages to one rank must have the match slots 0, 1, 2, ...
/// in the order of the task list; the same holds for the messages from one rank.
Result<Schedule> lower_to_core_direct(const Schedule& schedule,
                                      const CoreDirectOptions& options = {});

/// Prints lowered schedules in a table with one column for each rank and one section for each
/// round, like tables I and II of [Inozemtsev12]. With `all_tasks` the table also has the tasks
/// that those tables omit: sent CTS, enables, waits for sends, and tasks of the host.
std::string core_direct_table(std::span<const Schedule> lowered, bool all_tasks = false);

}  // namespace tutti::schedule
