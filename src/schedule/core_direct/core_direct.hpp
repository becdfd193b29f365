// Schedules for a network interface that has wait and enable (C1, C4, C5): all sends and receives
// are posted at once and held, one management queue releases them round by round, and the
// completion of its last wait is all that the host hears of.
//
// A send queue per destination and a receive queue per source, each with its own completion queue:
// a wait cannot see what arrived, only on which connection. Receives that depend on nothing are not
// held. Copies and reductions stand in host queues: what can be done before the first message in
// one that is not held, the rest in one that the management queue releases (Bruck's rotation).
//
// Rendezvous adds, per message, a CTS from receiver to sender on a pair of queues of its own; the
// sender's management queue waits for it before it releases the send.
#pragma once

#include <span>
#include <string>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::schedule {

struct CoreDirectOptions {
  Transfer transfer = Transfer::eager;
  /// Eager buffers hold one block: a message of n blocks is n sends and n receives (table I).
  bool buffer_per_block = true;
};

/// The management-queue form of a schedule. Errors (unsupported): tasks other than send, recv,
/// signal, copy and reduce; messages to one rank whose slots do not ascend in list order.
Result<Schedule> lower_to_core_direct(const Schedule& schedule,
                                      const CoreDirectOptions& options = {});

/// Lowered schedules side by side, a column a rank and a section a round, as in tables I and II of
/// the source: receives, sends, waits. `all_tasks` adds what the tables leave out: CTS sent,
/// enables, waits for sends, and the host's tasks.
std::string core_direct_table(std::span<const Schedule> lowered, bool all_tasks = false);

}  // namespace tutti::schedule
