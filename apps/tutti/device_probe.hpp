// What the device `ip` can do here, found by opening it.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// Opens an endpoint of a job of one on this interface (by name), asks it, and closes it.
/// `multicast`: "ud" or "uc".
Result<device::Capabilities> probe_device(const std::string& interface, bool ipv6,
                                          std::uint32_t subgroups,
                                          const std::string& multicast = "ud");

}  // namespace tutti::app
