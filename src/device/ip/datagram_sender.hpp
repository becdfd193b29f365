// Sending many datagrams to one destination with one system call: as one segmented message where
// the kernel can (UDP_SEGMENT), else by sendmmsg. Payloads are gathered from where they lie.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/ip/socket.hpp"

namespace tutti::device::ip {

class DatagramSender {
 public:
  /// Longest header in front of a payload.
  static constexpr std::size_t kMaxHeaderBytes = 288;
  /// Most datagrams of one batch: what a segmented message holds on every kernel that has them.
  static constexpr std::size_t kMaxBatch = 64;

  /// The most datagrams of that size that fill whole messages: a remainder costs every receiver as
  /// much as a full one. Broadcast of 256 KiB at MTU 1500: 6 -> 5 messages.
  static std::size_t whole_batch(std::size_t datagram_bytes);

  explicit DatagramSender(bool offload)
      : offload_(offload), storage_(kMaxBatch * kMaxHeaderBytes) {}

  bool offload() const { return offload_; }
  /// Room for the header of the next datagram, for the caller to fill; valid until the flush.
  std::byte* header_slot() { return storage_.data() + count_ * kMaxHeaderBytes; }
  /// Whether a datagram of this size may join the batch: all must be as long as the first, but the
  /// last, which may be shorter.
  bool fits(std::size_t datagram_bytes) const;
  /// Whether the batch can hold so many more datagrams of so many bytes in all.
  bool has_room(std::size_t datagrams, std::size_t bytes) const;
  /// Adds the datagram whose header is in `header_slot()`.
  void add(std::size_t header_bytes, std::span<const std::byte> payload);
  std::size_t count() const { return count_; }

  /// Sends the batch; `to` null: the socket is connected. Returns how many datagrams were accepted,
  /// from the first on: fewer than `count()` only where the send queue is full. Empties the batch.
  Result<std::size_t> flush(int fd, const SocketAddress* to);

  std::uint64_t calls() const { return calls_; }
  /// Messages handed to the kernel: a segmented batch is one.
  std::uint64_t messages() const { return messages_; }

 private:
  Result<std::size_t> send_segmented(int fd, const SocketAddress* to);
  Result<std::size_t> send_one(int fd, const SocketAddress* to);
  Result<std::size_t> send_each(int fd, const SocketAddress* to);
  msghdr message(std::size_t first, std::size_t datagrams, const SocketAddress* to);

  bool offload_;
  std::vector<std::byte> storage_;
  std::array<iovec, 2 * kMaxBatch> vectors_{};
  std::array<std::size_t, kMaxBatch> sizes_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t messages_ = 0;
};

}  // namespace tutti::device::ip
