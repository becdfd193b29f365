// Reads the traffic of a network interface as the kernel counts it.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

struct InterfaceBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Bytes that an interface has carried since it exists, link headers included. /proc/net/dev shows
/// the interfaces of this process's network namespace even if /sys shows those of another.
Result<InterfaceBytes> interface_bytes(const std::string& interface);

}  // namespace tutti::app
