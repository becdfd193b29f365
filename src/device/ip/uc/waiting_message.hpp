// What waits first in a socket: looked at before it is received, so that it can be received to
// where it belongs.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace tutti::device::ip {

/// Datagrams that the kernel hands over as one message (UDP_GRO): all of them `datagram_bytes`
/// long, but the last, which may be shorter.
struct WaitingMessage {
  static constexpr std::size_t kHeadBytes = 32;

  std::array<std::byte, kHeadBytes> storage;
  std::size_t head_bytes = 0;
  std::size_t bytes = 0;
  std::size_t datagram_bytes = 0;

  /// The start of the first datagram.
  std::span<const std::byte> head() const { return {storage.data(), head_bytes}; }
};

/// Looks without receiving; nothing where nothing waits.
std::optional<WaitingMessage> look(int fd);
/// Receives what `look` showed, scattered over `pieces`; returns its length, 0 where it is gone.
std::size_t receive_scattered(int fd, std::span<iovec> pieces);

}  // namespace tutti::device::ip
