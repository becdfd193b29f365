// The text form of a schedule, with one line for each task. Printed text parses to an equal
// schedule.
//
//   tutti-schedule 1
//   collective allgather
//   algorithm ring
//   ranks 3 rank 1 root 0
//   parameters ports=1 radix=2 segments=1 chains=1 ready=0 handshake=0
//   scratch 0
//   queue 0 free
//   task 0 copy send[0] -> receive[1]
//   task 1 send to 2 slot 0 from send[0]
//   task 2 recv from 0 slot 0 into receive[0]
//   task 3 round 1 send to 2 slot 1 from receive[0] after 2
//   end
//
// Buffer slices: receive[3] is block 3, receive[2..5] blocks 2, 3 and 4, receive[0]{1/4} the second
// quarter of block 0, receive[0]{1..3/4} its second and third quarter. A `#` begins a comment.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace tutti::schedule {

/// The text of a buffer slice, such as "receive[2..5]", or "-" for an empty slice.
std::string to_string(const BufferSlice& slice);
/// The text of a task without its number, such as "send to 3 slot 0 from receive[1] after 2 4".
std::string task_text(const Schedule& schedule, TaskIndex task);
/// The description of a task in errors, such as "rank 2 task 7 (send to 3 slot 0 from receive[1])".
std::string describe(const Schedule& schedule, TaskIndex task);
/// The text form of the whole schedule.
std::string to_text(const Schedule& schedule);

/// Parses a schedule. Errors (invalid_argument) name the line, the fault and the remedy.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace tutti::schedule
