// The network interfaces of this host, and which of them a job uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/ip/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

/// One address of an interface that is up.
struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu_bytes = 0;
  std::uint64_t speed_mbit = 0;  ///< 0: not known
  bool loopback = false;
  bool multicast = false;  ///< the kernel's flag; loopback works without it
  SocketAddress address;   ///< port 0
};

/// Every address of every interface that is up.
Result<std::vector<Interface>> list_interfaces();

/// The interface by name ("eth0") or address ("10.0.0.1"); empty: loopback where `local_only`, else
/// the first that can multicast and is not loopback. `family`: AF_INET or AF_INET6.
Result<Interface> choose_interface(const std::string& wanted, bool local_only, int family);

}  // namespace tutti::device::ip
