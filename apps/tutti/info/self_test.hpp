// Tests on this host whether Tutti can send a Broadcast over loopback.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::app {

struct SelfTest {
  Status status;
  std::uint64_t bytes = 0;
  std::uint64_t datagrams = 0;    ///< number of multicast datagrams sent
  Nanoseconds create_time{0};     ///< time until both ranks had created the communicator
  Nanoseconds broadcast_time{0};  ///< duration of the Broadcast at the receiving rank
};

/// Runs a Broadcast of 64 KiB between two ranks, which are threads of this process, and checks the
/// received data.
SelfTest run_self_test();

}  // namespace tutti::app
