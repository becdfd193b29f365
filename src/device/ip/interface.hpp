// Lists the network interfaces of this host and chooses the one that a job uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/ip/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

/// One address of a network interface that is up.
struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu_bytes = 0;
  std::uint64_t speed_mbit = 0;  ///< link speed in Mbit/s; 0: unknown
  bool loopback = false;
  bool multicast = false;  ///< kernel's multicast flag, not set on loopback
  SocketAddress address;   ///< address of the interface, with port 0
};

/// Lists every address of every interface that is up.
Result<std::vector<Interface>> list_interfaces();

/// Finds an interface by name ("eth0") or address ("10.0.0.1"). If `wanted` is empty, returns the
/// loopback interface if `local_only` is true, otherwise the first other interface that supports
/// multicast. `family` is AF_INET or AF_INET6.
Result<Interface> choose_interface(const std::string& wanted, bool local_only, int family);

}  // namespace tutti::device::ip
