// Barriers and handshakes that other schedules contain.
#pragma once

#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

/// Writes a dissemination barrier and returns its last tasks: once they are complete, every rank
/// has entered the barrier.
std::vector<schedule::TaskRef> write_dissemination(schedule::Builder& b);

/// Writes the final handshake ([Khalilov24] 3.3): this rank signals its left neighbour once
/// `own_work` is complete, and its buffers are free once the right neighbour's signal has arrived.
void write_handshake(schedule::Builder& b, const std::vector<schedule::TaskRef>& own_work);

}  // namespace tutti::collectives
