// Finds out what the device `ip` can do on this host, by opening an endpoint.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// The capabilities of an endpoint on the interface of this name. The endpoint is opened for a job
/// of one rank and closed again; `multicast` is "ud" or "uc".
Result<device::Capabilities> probe_device(const std::string& interface, bool ipv6,
                                          std::uint32_t subgroups,
                                          const std::string& multicast = "ud");

}  // namespace tutti::app
