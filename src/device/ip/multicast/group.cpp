#include "device/ip/multicast/group.hpp"

#include <arpa/inet.h>

#include <cstring>

#include "base/random.hpp"

namespace tutti::device::ip {

namespace {

constexpr std::uint32_t kIpv4Base = 0xefc0'0000u;  // the address 239.192.0.0
constexpr std::uint32_t kIpv4HostMask = 0x0003'ffffu;
constexpr std::uint16_t kFirstPort = 20000;
constexpr std::uint16_t kPortCount =
    12000;  // all ports are below the ephemeral range, which starts at 32768

std::uint64_t fold(std::span<const std::byte> seed, std::uint64_t salt) {
  std::uint64_t value = mix(salt);
  for (const std::byte byte : seed) value = mix(value ^ static_cast<std::uint64_t>(byte));
  return value;
}

}  // namespace

SocketAddress group_address(std::span<const std::byte> seed, std::uint16_t communicator,
                            std::uint32_t subgroup, int family, std::uint32_t interface_index) {
  const std::uint64_t place = fold(seed, communicator);
  const auto port =
      static_cast<std::uint16_t>(kFirstPort + ((place >> 40) + subgroup) % kPortCount);
  if (family == AF_INET6) {
    in6_addr group{};
    group.s6_addr[0] = 0xff;
    group.s6_addr[1] = 0x15;
    const std::uint64_t high = mix(place);
    std::memcpy(group.s6_addr + 4, &place, 4);
    std::memcpy(group.s6_addr + 8, &high, 8);
    return SocketAddress::v6(group, port, interface_index);
  }
  in_addr group{};
  group.s_addr = htonl(kIpv4Base | (static_cast<std::uint32_t>(place) & kIpv4HostMask));
  return SocketAddress::v4(group, port);
}

}  // namespace tutti::device::ip
