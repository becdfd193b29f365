// Asks the kernel whether it has the link address of a host's next hop. While that address is
// missing, datagrams to the host wait in the kernel, which requests the address only once a second.
#pragma once

#include "device/ip/interface.hpp"
#include "device/ip/socket.hpp"

namespace tutti::device::ip {

/// True if datagrams to `peer` through an interface wait for the link address of their next hop;
/// false if they do not, or if the kernel gives no answer. Waits while the kernel changes its
/// network configuration.
bool link_address_missing(const Interface& interface, const SocketAddress& peer);

}  // namespace tutti::device::ip
