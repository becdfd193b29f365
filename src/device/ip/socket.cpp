#include "device/ip/socket.hpp"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace tutti::device::ip {

SocketAddress SocketAddress::v4(in_addr address, std::uint16_t port) {
  SocketAddress result;
  auto* in = reinterpret_cast<sockaddr_in*>(&result.storage_);
  in->sin_family = AF_INET;
  in->sin_addr = address;
  in->sin_port = htons(port);
  return result;
}

SocketAddress SocketAddress::v6(const in6_addr& address, std::uint16_t port, std::uint32_t scope) {
  SocketAddress result;
  auto* in = reinterpret_cast<sockaddr_in6*>(&result.storage_);
  in->sin6_family = AF_INET6;
  in->sin6_addr = address;
  in->sin6_port = htons(port);
  in->sin6_scope_id = scope;
  return result;
}

SocketAddress SocketAddress::from(const sockaddr* address) {
  SocketAddress result;
  const std::size_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&result.storage_, address, length);
  return result;
}

socklen_t SocketAddress::length() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::uint16_t SocketAddress::port() const {
  // IPv4 and IPv6 socket addresses store the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
}

std::span<const std::byte> SocketAddress::ip() const {
  if (family() == AF_INET6) {
    return std::as_bytes(
        std::span(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, 1));
  }
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, 1));
}

bool SocketAddress::same_host(const SocketAddress& other) const {
  return family() == other.family() && std::ranges::equal(ip(), other.ip());
}

std::vector<std::byte> SocketAddress::encode() const {
  const std::uint16_t host_port = port();
  std::vector<std::byte> bytes(1 + sizeof host_port + ip().size());
  bytes[0] = static_cast<std::byte>(family() == AF_INET6 ? 6 : 4);
  std::memcpy(bytes.data() + 1, &host_port, sizeof host_port);
  std::ranges::copy(ip(), bytes.begin() + 1 + sizeof host_port);
  return bytes;
}

Result<SocketAddress> SocketAddress::decode(std::span<const std::byte> bytes) {
  const bool four = bytes.size() == 7 && bytes[0] == std::byte{4};
  const bool six = bytes.size() == 19 && bytes[0] == std::byte{6};
  if (!four && !six) {
    return failure(
        Code::invalid_argument,
        "a socket address of {} bytes is neither IPv4 nor IPv6: use one version of Tutti on all "
        "ranks",
        bytes.size());
  }
  std::uint16_t port = 0;
  std::memcpy(&port, bytes.data() + 1, 2);
  if (four) {
    in_addr address{};
    std::memcpy(&address, bytes.data() + 3, 4);
    return v4(address, port);
  }
  in6_addr address{};
  std::memcpy(&address, bytes.data() + 3, 16);
  return v6(address, port, 0);
}

std::string SocketAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text,
                sizeof text);
    return fmt::format("[{}]:{}", text, port());
  }
  ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text,
              sizeof text);
  return fmt::format("{}:{}", text, port());
}

Status set_option(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) == 0) return {};
  return system_failure(errno, "setting socket option {} to {}", name, value);
}

int get_option(int fd, int level, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, level, option, &value, &length) == 0 ? value : -1;
}

std::uint64_t enlarge_receive_buffer(int fd, int bytes) {
  // Only SO_RCVBUFFORCE can exceed net.core.rmem_max, and it needs CAP_NET_ADMIN.
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  const int granted = get_option(fd, SOL_SOCKET, SO_RCVBUF);
  return granted < 0 ? 0 : static_cast<std::uint64_t>(granted);
}

Status set_traffic_class(int fd, int family, const TrafficClass& traffic) {
  const bool six = family == AF_INET6;
  // The code point is the upper six bits of the type of service (IPv4) or traffic class (IPv6); the
  // lower two bits are for congestion notification (RFC 3168).
  const int field = static_cast<int>(traffic.dscp) << 2;
  Status status = six ? set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, field, "IPV6_TCLASS")
                      : set_option(fd, IPPROTO_IP, IP_TOS, field, "IP_TOS");
  // Setting IP_TOS also changes SO_PRIORITY, so SO_PRIORITY is set last.
  if (!status || (traffic.priority == 0 && !six)) return status;
  const int value = static_cast<int>(traffic.priority);
  if (::setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &value, sizeof value) == 0) return {};
  return system_failure(
      errno,
      "the socket priority {} cannot be set (use 6 or less in the option traffic_class "
      "or TUTTI_TRAFFIC_CLASS, or grant CAP_NET_ADMIN)",
      traffic.priority);
}

std::uint64_t unsent_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

Result<Descriptor> open_udp(int family) {
  Descriptor socket(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_failure(errno, "opening a UDP socket");
  return socket;
}

}  // namespace tutti::device::ip
