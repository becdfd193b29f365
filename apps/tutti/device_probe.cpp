#include "device_probe.hpp"

#include <sys/socket.h>

#include "device/ip/ip_device.hpp"

namespace tutti::app {

Result<device::Capabilities> probe_device(const std::string& interface, bool ipv6,
                                          std::uint32_t subgroups, const std::string& multicast) {
  device::ip::IpOptions ip;
  ip.interface = interface;
  ip.family = ipv6 ? AF_INET6 : AF_INET;
  if (multicast == "uc") ip.multicast = device::ip::Multicast::uc;
  device::ip::IpDevice device(ip);
  device::EndpointOptions options;
  options.rank = Rank{0};
  options.size = 1;
  options.subgroups = subgroups;
  options.group_seed = {std::byte{1}};
  options.local_ranks = {Rank{0}};
  const auto endpoint = device.open(options);
  if (!endpoint) return endpoint.status();
  return (*endpoint)->capabilities();
}

}  // namespace tutti::app
