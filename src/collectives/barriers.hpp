// Barriers and handshakes as parts of other schedules.
#pragma once

#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

/// Writes a dissemination barrier. Once all returned tasks are complete, every rank has begun.
std::vector<schedule::TaskRef> write_dissemination(schedule::Builder& b);

/// Writes the final handshake [Khalilov24] 3.3: signals the left neighbour once `own_work` is
/// complete; the buffers are free when the right neighbour's signal arrives.
void write_handshake(schedule::Builder& b, const std::vector<schedule::TaskRef>& own_work);

}  // namespace tutti::collectives
