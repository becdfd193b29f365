// Makes sockets of another network namespace for use in this process.
#pragma once

#include "device/posix/descriptor.hpp"
#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::launch {

/// Makes a socket, by socket()'s arguments, in the network namespace of `place`, to which the
/// socket then belongs.
Result<device::Descriptor> socket_in(const NetNamespace& place, int domain, int type, int protocol);

}  // namespace tutti::launch
