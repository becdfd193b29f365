// Tests Tutti on this host with a real broadcast over loopback.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::app {

struct SelfTest {
  Status status;
  std::uint64_t bytes = 0;
  std::uint64_t datagrams = 0;    ///< number of multicast datagrams sent
  Nanoseconds create_time{0};     ///< time that both ranks took to join
  Nanoseconds broadcast_time{0};  ///< duration of the first broadcast on the receiving rank
};

/// Runs two ranks as threads of this process on loopback and checks a broadcast of 64 KiB.
SelfTest run_self_test();

}  // namespace tutti::app
