// Sends many datagrams to one destination with one system call: as one segmented message if the
// kernel supports that (UDP_SEGMENT), else by sendmmsg. Payloads are gathered without a copy.
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
  /// The header before a payload has at most this many bytes.
  static constexpr std::size_t kMaxHeaderBytes = 288;
  /// Capacity of a batch in datagrams; every kernel with UDP_SEGMENT accepts this many.
  static constexpr std::size_t kMaxBatch = 64;

  /// The number of datagrams of this size that a caller should send together, at most kMaxBatch.
  /// They fill whole segmented messages, because a partly filled message costs every receiver as
  /// much as a full one.
  static std::size_t whole_batch(std::size_t datagram_bytes);

  explicit DatagramSender(bool offload)
      : offload_(offload), storage_(kMaxBatch * kMaxHeaderBytes) {}

  /// Memory for the header of the next datagram, which the caller fills before `add`.
  std::byte* header_slot() { return storage_.data() + count_ * kMaxHeaderBytes; }
  /// True if a datagram of this size may join the batch. All datagrams of a batch have the same
  /// size, except that the last may be shorter.
  bool fits(std::size_t datagram_bytes) const;
  /// True if the batch has room for `datagrams` more datagrams with `bytes` bytes in all.
  bool has_room(std::size_t datagrams, std::size_t bytes) const;
  /// Adds the datagram whose header the caller has written to `header_slot()`.
  void add(std::size_t header_bytes, std::span<const std::byte> payload);
  std::size_t count() const { return count_; }

  /// Sends and empties the batch; a null `to` means that the socket is connected. Returns the
  /// number of leading datagrams accepted, which is less than `count()` only if the send queue is
  /// full.
  Result<std::size_t> flush(int fd, const SocketAddress* to);

  std::uint64_t calls() const { return calls_; }
  /// Number of messages handed to the kernel so far; a batch sent as one segmented message counts
  /// as one.
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
