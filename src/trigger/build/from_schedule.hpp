// A Tianhe sequence is a schedule in another dress: lowers one rank's schedule to descriptors.
//
// A unit runs a sequence strictly one descriptor after the other, so the tasks are put in an order
// that never waits longer than it must: whatever waits for nobody (sends, signals, copies) comes as
// soon as its dependencies allow; of what waits, the lowest round comes first. A receive into
// scratch whose data are only reduced becomes one reduction of the packet itself; a reduction of
// two places in memory sends one of them to its own node first, since a descriptor has one operand
// of its own.
//
// Messages become packets: the slot of a message is the step of its packet. One-sided tasks,
// multicasts, counted waits and enables have no descriptor: they are refused by name. Averages are
// sums here; the host finishes its result.
#pragma once

#include <span>

#include "reduction/element_type.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "trigger/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

/// Where a rank runs a schedule.
struct ScheduleCall {
  std::span<const NodeId> nodes;  ///< by rank
  JobId job{};
  Port port{};
  Address send = kNoAddress;
  Address receive = kNoAddress;
  Address scratch = kNoAddress;  ///< of schedule::scratch_bytes()
  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
};

/// The sequence; its last descriptor ends the collective at this rank. Errors: unsupported (a task
/// without a descriptor, more messages on one connection than steps), invalid_argument (a shape
/// that does not fit the schedule, ranks without nodes).
Result<DescriptorList> lower_schedule(const schedule::Schedule& schedule,
                                      const schedule::Shape& shape, const ScheduleCall& call);

}  // namespace tutti::trigger
