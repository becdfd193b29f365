// Lowers one rank's schedule: translates its tasks to a sequence of descriptors.
//
// A unit runs a sequence strictly in order, so the lowering chooses an order with short waits.
// Tasks that wait for no peer come as soon as their dependencies allow; the other tasks follow in
// the order of their rounds. A receive into scratch and the reduction that reads the received data
// become one descriptor if no other task reads this data. For any other reduction, the node first
// sends one operand to itself, because a descriptor has only one operand of its own.
//
// A message becomes a packet whose step is the message's match slot. One-sided tasks, multicasts,
// waits and enables cannot be lowered. An average is lowered to a sum, which the host must divide.
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
  std::span<const NodeId> nodes;  ///< node of each rank, indexed by rank
  JobId job{};
  Port port{};
  Address send = kNoAddress;
  Address receive = kNoAddress;
  Address scratch = kNoAddress;  ///< address of scratch memory of schedule::scratch_bytes() bytes
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
};

/// Returns the sequence, whose last descriptor ends the collective at this rank. Fails with
/// unsupported if a task cannot be lowered, or if two ranks exchange more messages than there are
/// step numbers for packets. Fails with invalid_argument if the shape or the number of nodes does
/// not fit the schedule.
Result<DescriptorList> lower_schedule(const schedule::Schedule& schedule,
                                      const schedule::Shape& shape, const ScheduleCall& call);

}  // namespace tutti::trigger
