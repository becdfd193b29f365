// TCP sockets with deadlines, for bootstraps and for the connections to aggregators.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

using SteadyClock = std::chrono::steady_clock;
using Deadline = SteadyClock::time_point;

/// The present instant plus `timeout`. A negative timeout counts as zero, and a timeout above one
/// year as one year.
Deadline deadline_after(Nanoseconds timeout);
/// Time until `deadline` in milliseconds, rounded up and never negative.
int remaining_ms(Deadline deadline);
/// Time until `deadline` in milliseconds, as poll(2) takes it: -1 for Deadline::max().
int poll_timeout_ms(Deadline deadline);

/// A file descriptor that the destructor closes.
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

/// A TCP address: a host name or a literal IPv4 or IPv6 address, and a port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// Reads "host:port" or "[::1]:port" with a port from 1 to 65535.
Result<Endpoint> parse_endpoint(std::string_view text);
/// The text of an address in the form that parse_endpoint reads, with brackets around IPv6
/// literals.
std::string to_string(const Endpoint& endpoint);

/// The address of the first running interface that is not the loopback, IPv4 before IPv6; other
/// hosts can probably reach it. 127.0.0.1 if there is no such interface.
std::string reachable_host();

/// Opens a nonblocking listener. It listens only at the given address if the host is "localhost" or
/// a literal address; otherwise it listens at every IPv4 and IPv6 address of this host. Port 0
/// selects a free port.
Result<Socket> listen_on(const Endpoint& endpoint);
Result<std::uint16_t> bound_port(const Socket& socket);
/// The address of a connection's peer, for logs and error texts.
std::string peer_of(const Socket& socket);
/// The part of the peer's address that identifies one party: an IPv4 address, or the first 64 bits
/// of an IPv6 address.
std::string neighbourhood_of(const Socket& socket);

/// A listener whose connections a poll loop accepts. If the process has no descriptor or memory for
/// another connection, the loop does not poll the listener for a short time (a pause), because
/// poll() would report the same waiting connection again and again.
class Listener {
 public:
  Listener() = default;
  explicit Listener(Socket socket) : socket_(std::move(socket)) {}
  bool open() const { return socket_.open(); }
  /// The descriptor to poll; -1 while the listener pauses, or if there is no socket.
  int poll_fd(Deadline now) const { return now < again_ ? -1 : socket_.fd(); }
  /// The end of the present pause; Deadline::max() if there is none.
  Deadline pause_end(Deadline now) const { return now < again_ ? again_ : Deadline::max(); }
  /// Accepts one connection. If no connection waits, or if a pause begins, the returned socket is
  /// not open.
  Socket accept();

 private:
  Socket socket_;
  Deadline again_ = Deadline::min();
};

/// Connects to an endpoint and tries each of its addresses once. If all attempts fail, returns the
/// error of the last address.
Result<Socket> connect_once(const Endpoint& endpoint, Deadline deadline);

/// Waits for poll `events` on a socket; false if the deadline passes first.
bool wait_for(const Socket& socket, short events, Deadline deadline);

}  // namespace tutti::runtime
