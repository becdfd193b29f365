// The traffic of a network interface as the kernel counts it.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

struct InterfaceBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Bytes since the interface exists, link headers included. Read from /proc/net/dev, which shows
/// this process's network namespace even if /sys shows another.
Result<InterfaceBytes> interface_bytes(const std::string& interface);

}  // namespace tutti::app
