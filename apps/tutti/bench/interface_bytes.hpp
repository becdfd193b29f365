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

/// The bytes that an interface has sent and received since it was created, including link headers.
/// The numbers are read from /proc/net/dev, because /sys may show another network namespace.
Result<InterfaceBytes> interface_bytes(const std::string& interface);

}  // namespace tutti::app
