// Sockets of another network namespace, used from this process.
#pragma once

#include "device/posix/descriptor.hpp"
#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::launch {

/// Makes a socket in the place's network namespace, where it stays, with socket()'s arguments.
Result<device::Descriptor> socket_in(const NetNamespace& place, int domain, int type, int protocol);

}  // namespace tutti::launch
