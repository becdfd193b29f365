// Socket helpers: addresses of both IP families as values, and socket options with error texts.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

/// An IPv4 or IPv6 address with port.
class SocketAddress {
 public:
  /// Size in bytes of the memory to which `get` points. Pass this size as the buffer length to
  /// system calls that write an address.
  static constexpr socklen_t kMaxBytes = sizeof(sockaddr_storage);

  SocketAddress() = default;
  static SocketAddress v4(in_addr address, std::uint16_t port);
  static SocketAddress v6(const in6_addr& address, std::uint16_t port, std::uint32_t scope);
  static SocketAddress from(const sockaddr* address);

  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t length() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  /// The IP address as bytes in network order, in memory of this object.
  std::span<const std::byte> ip() const;
  /// True if this address and `other` have the same IP address; the ports may differ.
  bool same_host(const SocketAddress& other) const;
  /// The address as bytes for the bootstrap: family, port and address, without the scope id, which
  /// is valid on one host only.
  std::vector<std::byte> encode() const;
  static Result<SocketAddress> decode(std::span<const std::byte> bytes);
  /// The address as text, such as "10.0.0.1:4000" or "[fe80::1]:4000".
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
};

/// Sets an integer socket option; `name` names it in the error.
Status set_option(int fd, int level, int option, int value, const char* name);
/// Reads an integer socket option; -1 if that fails.
int get_option(int fd, int level, int option);

/// The class in which a socket's datagrams are queued: `dscp` in the network (0 to 63, RFC 2474)
/// and `priority` in this host (SO_PRIORITY). A value of 0 leaves the choice to the kernel.
struct TrafficClass {
  std::uint32_t dscp = 0;
  std::uint32_t priority = 0;

  friend bool operator==(const TrafficClass&, const TrafficClass&) = default;
};
Status set_traffic_class(int fd, int family, const TrafficClass& traffic);

/// Requests a receive buffer of `bytes` bytes; the system's limit does not bind a privileged
/// process. Returns the size that the kernel grants, which includes packet overhead.
std::uint64_t enlarge_receive_buffer(int fd, int bytes);

/// Bytes that were sent through the socket and have not left this host yet.
std::uint64_t unsent_bytes(int fd);

/// Opens a non-blocking UDP socket.
Result<Descriptor> open_udp(int family);

}  // namespace tutti::device::ip
