// Receives many datagrams with one system call.
//
// The kernel delivers the datagrams of one segmented send as one message (UDP_GRO), together with
// their size. Messages are received into a few staging slots of 64 KiB that stay in the cache, and
// `next` returns the datagrams in these slots one by one.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/ip/socket.hpp"

namespace tutti::device::ip {

class DatagramBatch {
 public:
  /// One call of `receive` receives at most `slots` messages.
  explicit DatagramBatch(std::size_t slots);

  /// Receives waiting messages and returns their number; 0 if no message waits or after a transient
  /// error. Invalidates the datagrams of the previous call.
  std::size_t receive(int fd);
  /// Returns the next datagram of the last `receive`; the datagram may have no bytes. Returns
  /// nothing after the last datagram.
  std::optional<std::span<const std::byte>> next();
  /// The source address of the datagram that `next` returned last.
  const SocketAddress& sender() const { return senders_[taken_from_]; }
  /// True if `next` would return a datagram.
  bool pending() const { return slot_ < filled_; }

  /// True if the last `receive` received all waiting messages.
  bool drained() const { return filled_ < messages_.size(); }

  /// Number of system calls so far.
  std::uint64_t calls() const { return calls_; }

 private:
  static constexpr std::size_t kSlotBytes = 65536;
  static constexpr std::size_t kControlBytes = 64;

  void prepare(std::size_t slot);
  void leave_message();
  std::size_t segment_bytes(const msghdr& header) const;

  std::unique_ptr<std::byte[]> storage_;
  std::unique_ptr<std::byte[]> control_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> vectors_;
  std::vector<SocketAddress> senders_;
  std::size_t filled_ = 0;
  std::size_t slot_ = 0;
  std::size_t taken_from_ = 0;  ///< staging slot of the datagram that `next` returned last
  std::size_t offset_ = 0;
  std::size_t segment_ = 0;
  std::uint64_t calls_ = 0;
};

/// Turns on receive offload (UDP_GRO). Returns false if the kernel does not support it; datagrams
/// then arrive one by one.
bool enable_receive_offload(int fd);
/// True if the kernel accepts segmented sends on this socket.
bool probe_send_offload(int fd);

}  // namespace tutti::device::ip
