// Reads the capabilities of the device by opening it.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// Opens an endpoint of a single-rank job on this interface (by name), reads its capabilities, and
/// closes it. `multicast` is "ud" or "uc".
Result<device::Capabilities> probe_device(const std::string& interface, bool ipv6,
                                          std::uint32_t subgroups,
                                          const std::string& multicast = "ud");

}  // namespace tutti::app
