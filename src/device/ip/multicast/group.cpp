#include "device/ip/multicast/group.hpp"

#include <arpa/inet.h>

#include <cstring>

namespace tutti::device::ip {

namespace {

constexpr std::uint32_t kIpv4Base = 0xefc0'0000u;  // the address 239.192.0.0
constexpr std::uint32_t kIpv4HostMask = 0x0003'ffffu;
constexpr std::uint16_t kFirstPort = 20000;
constexpr std::uint16_t kPortCount =
    12000;  // all ports are below the ephemeral range, which starts at 32768

}  // namespace

SocketAddress group_address(const GroupSeed& seed, std::uint32_t subgroup, int family,
                            std::uint32_t interface_index, std::uint32_t hops) {
  std::uint32_t place = 0;
  std::memcpy(&place, seed.data() + 12, sizeof place);
  const auto port = static_cast<std::uint16_t>(kFirstPort + (place + subgroup) % kPortCount);
  if (family == AF_INET6) {
    in6_addr group{};
    group.s6_addr[0] = 0xff;
    group.s6_addr[1] = hops > 1 ? 0x15 : 0x12;
    std::memcpy(group.s6_addr + 4, seed.data(), 12);
    return SocketAddress::v6(group, port, interface_index);
  }
  std::uint32_t host = 0;
  std::memcpy(&host, seed.data(), sizeof host);
  in_addr group{};
  group.s_addr = htonl(kIpv4Base | (host & kIpv4HostMask));
  return SocketAddress::v4(group, port);
}

}  // namespace tutti::device::ip
