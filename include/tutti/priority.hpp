// The priority of a call among the calls of one process.
#pragma once

#include <cstdint>

namespace tutti {

/// At one network interface of a process, ready data of a call is sent before ready data of calls
/// with a lower priority. A call never waits for a call that has no data to send. Priorities may
/// differ between ranks; shared memory ignores them.
enum class Priority : std::int8_t { low = -1, normal = 0, high = 1 };

constexpr bool exists(Priority priority) {
  return priority >= Priority::low && priority <= Priority::high;
}

}  // namespace tutti
