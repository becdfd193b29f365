// Makes sockets that belong to another network namespace, for use in this process.
#pragma once

#include "device/posix/descriptor.hpp"
#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::launch {

/// Makes a socket that belongs to the network namespace of `place`. The other arguments are those
/// of socket().
Result<device::Descriptor> socket_in(const NetNamespace& place, int domain, int type, int protocol);

}  // namespace tutti::launch
