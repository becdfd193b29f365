// What a network interface has carried, as the kernel counts it.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

struct InterfaceBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Counts since the interface exists, link headers included. From /proc/net/dev, which shows the
/// network namespace of this process also where /sys still shows another.
Result<InterfaceBytes> interface_bytes(const std::string& interface);

}  // namespace tutti::app
