// Lowers one rank's schedule to a sequence of descriptors.
//
// A unit runs a sequence strictly in order, so the lowering orders tasks for the shortest waits.
// Tasks that wait for no peer (sends, signals, copies) come as soon as their dependencies allow; of
// the others, the lowest round comes first. A receive into scratch that is only reduced becomes a
// reduction of the packet itself. A reduction of two places in memory first sends one of them to
// its own node, because a descriptor has one operand of its own.
//
// A message becomes a packet whose step is the message's slot. One-sided tasks, multicasts, counted
// waits and enables have no descriptor and are refused by name. Averages are lowered to sums, which
// the host finishes.
#pragma once

#include <span>

#include "reduction/element_type.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "trigger/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

/// The nodes, ports and addresses with which one rank carries out a schedule.
struct ScheduleCall {
  std::span<const NodeId> nodes;  ///< node of each rank, by rank
  JobId job{};
  Port port{};
  Address send = kNoAddress;
  Address receive = kNoAddress;
  Address scratch = kNoAddress;  ///< memory of schedule::scratch_bytes() bytes
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
};

/// Returns the sequence, whose last descriptor ends the collective at this rank. Fails with
/// unsupported for a task without a descriptor or more messages on a connection than there are
/// steps, and with invalid_argument for a shape that does not fit the schedule or ranks without
/// nodes.
Result<DescriptorList> lower_schedule(const schedule::Schedule& schedule,
                                      const schedule::Shape& shape, const ScheduleCall& call);

}  // namespace tutti::trigger
