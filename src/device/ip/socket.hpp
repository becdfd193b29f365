// Sockets as values: an owned descriptor, an address of either family, options with context.
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
  /// Bytes for the bootstrap: family, port, address; without the local scope.
  std::vector<std::byte> encode() const;
  static Result<SocketAddress> decode(std::span<const std::byte> bytes);
  /// "10.0.0.1:4000", "[fe80::1]:4000".
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
};

/// Sets an integer option; the failure names it.
Status set_option(int fd, int level, int option, int value, const char* name);
/// Reads an integer option back; -1 where it cannot be read.
int get_option(int fd, int level, int option);

/// Asks for a receive buffer as large as `bytes`, past the system's limit where privilege allows,
/// and returns what the kernel granted (its own accounting, which counts packet overhead).
std::uint64_t enlarge_receive_buffer(int fd, int bytes);

/// A non-blocking UDP socket of a family.
Result<Descriptor> open_udp(int family);

}  // namespace tutti::device::ip
