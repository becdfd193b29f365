// Whether Tutti works on this host at all: a real broadcast over loopback.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::app {

struct SelfTest {
  Status status;
  std::uint64_t bytes = 0;
  std::uint64_t datagrams = 0;    ///< multicast, sent
  Nanoseconds create_time{0};     ///< for both ranks to find each other
  Nanoseconds broadcast_time{0};  ///< at the receiving rank, the first after creation
};

/// Two ranks, as threads of this process, on loopback: a broadcast of 64 KiB, compared.
SelfTest run_self_test();

}  // namespace tutti::app
