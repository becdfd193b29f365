// Barriers and handshakes as parts of the schedules of other collectives.
#pragma once

#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

/// Writes a dissemination barrier and returns the tasks that receive its signals. Once these tasks
/// are complete, every rank has entered the barrier.
std::vector<schedule::TaskRef> write_dissemination(schedule::Builder& b);

/// Writes the final handshake ([Khalilov24] 3.3): this rank signals its left neighbour once the
/// tasks `own_work` are complete. The buffers of this rank are free once the signal of its right
/// neighbour has arrived.
void write_handshake(schedule::Builder& b, const std::vector<schedule::TaskRef>& own_work);

}  // namespace tutti::collectives
