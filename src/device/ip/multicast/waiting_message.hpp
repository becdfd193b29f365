// Peeks at the first waiting message of a socket, so that the message can be received directly to
// its destination.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "device/ip/socket.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::device::ip {

/// Datagrams that the kernel delivers as one message (UDP_GRO). Each has `datagram_bytes` bytes;
/// the last may be shorter.
struct WaitingMessage {
  std::array<std::byte, wire::kFragmentHeaderBytes> storage;
  std::size_t head_bytes = 0;
  std::size_t bytes = 0;
  std::size_t datagram_bytes = 0;
  SocketAddress sender;

  /// The first bytes of the first datagram.
  std::span<const std::byte> head() const { return {storage.data(), head_bytes}; }
};

/// Peeks at the first waiting message of a socket; returns nothing if no message waits.
std::optional<WaitingMessage> look(int fd);
/// Receives into `pieces` the message that `look` has found. Returns the message's length in bytes,
/// or 0 if no message waits any more.
std::size_t receive_scattered(int fd, std::span<iovec> pieces);

}  // namespace tutti::device::ip
