// Asks the kernel whether it has the link address of the next hop to a host. Without the link
// address, datagrams to the host wait in the kernel, which asks the network for the address only
// once a second.
#pragma once

#include <cstdint>

#include "device/ip/socket.hpp"

namespace tutti::device::ip {

/// True if datagrams to `peer` through an interface wait for the link address of their next hop.
/// False if they do not, or if the kernel gives no answer.
bool link_address_missing(std::uint32_t interface_index, const SocketAddress& peer);

}  // namespace tutti::device::ip
