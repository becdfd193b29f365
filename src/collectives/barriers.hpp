// Barriers as a part of other schedules: who may go on, and when.
#pragma once

#include <vector>

#include "schedule/builder.hpp"

namespace tutti::collectives {

/// Writes a dissemination barrier. Everybody has begun once all the tasks returned are complete.
std::vector<schedule::TaskRef> write_dissemination(schedule::Builder& b);

/// Writes the handshake of K6: once `own_work` is complete, tell the left neighbour so; the buffers
/// are the caller's again when the right one has said the same.
void write_handshake(schedule::Builder& b, const std::vector<schedule::TaskRef>& own_work);

}  // namespace tutti::collectives
