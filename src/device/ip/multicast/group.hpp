// The multicast groups and ports of a communicator, derived from a random seed that its ranks
// share. Two jobs on one network rarely derive the same group and port; if they do, the keyed tag
// separates them.
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "device/ip/socket.hpp"

namespace tutti::device::ip {

/// The group and port of a subgroup. IPv4: 239.192.0.0/14, the organisation-local scope (RFC 2365);
/// IPv6: ff12::/16, transient and link-local, or with several `hops` ff15::/16, transient and
/// site-local (RFC 4291). All subgroups share one group and differ in the port, because group
/// memberships are scarce and ports are not.
SocketAddress group_address(const GroupSeed& seed, std::uint32_t subgroup, int family,
                            std::uint32_t interface_index, std::uint32_t hops = 1);

}  // namespace tutti::device::ip
