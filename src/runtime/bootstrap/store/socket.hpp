// TCP sockets with deadlines, for the bootstrap only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

using SteadyClock = std::chrono::steady_clock;
using Deadline = SteadyClock::time_point;

/// `timeout` from now; negative counts as zero, more than a year as a year.
Deadline deadline_after(Nanoseconds timeout);
/// Milliseconds until `deadline`, rounded up, never negative.
int remaining_ms(Deadline deadline);

/// An owned descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The address of a store: a host name or a literal IPv4 or IPv6 address, and a TCP port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// "host:port" or "[::1]:port"; port 1 .. 65535.
Result<Endpoint> parse_endpoint(std::string_view text);
/// The inverse: IPv6 literals in brackets.
std::string to_string(const Endpoint& endpoint);

/// The address of the first running interface that is not the loopback, IPv4 before IPv6; 127.0.0.1
/// if there is no other. Other hosts can probably reach it.
std::string reachable_host();

/// Listens without blocking. A literal address and a name of the loopback are bound as they are;
/// any other host name, and an empty host, bind every address, IPv4 and IPv6. Port 0 takes a free
/// one.
Result<Socket> listen_on(const Endpoint& endpoint);
Result<std::uint16_t> bound_port(const Socket& socket);

/// Tries every address of the endpoint once; the failure is that of the last one.
Result<Socket> connect_once(const Endpoint& endpoint, Deadline deadline);

/// Sends all bytes, or fails: Code::timeout at the deadline, Code::peer_failed if the peer has
/// closed.
Status send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
/// Receives at least one byte, or 0 if the peer has closed.
Result<std::size_t> receive_some(const Socket& socket, std::span<std::byte> into,
                                 Deadline deadline);

}  // namespace tutti::runtime
