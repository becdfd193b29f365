// Sockets of another network namespace, used from this process.
#pragma once

#include "lab/descriptor.hpp"
#include "lab/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// A socket that lives in the place's network namespace (a socket keeps the one it was made in),
/// with socket()'s arguments.
Result<Descriptor> socket_in(const NetNamespace& place, int domain, int type, int protocol);

}  // namespace tutti::lab
