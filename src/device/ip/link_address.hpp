// Asks the kernel whether it has the link address of a host's next hop. Datagrams to a host without
// one wait in the kernel, which asks for a link address once a second only.
#pragma once

#include <cstdint>

#include "device/ip/socket.hpp"

namespace tutti::device::ip {

/// True if datagrams to `peer` through an interface wait for the link address of their next hop.
/// False if they do not, or if the kernel gives no answer.
bool link_address_missing(std::uint32_t interface_index, const SocketAddress& peer);

}  // namespace tutti::device::ip
