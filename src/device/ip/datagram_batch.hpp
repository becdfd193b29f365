// Receiving many datagrams with one system call, segmented ones included.
//
// The kernel hands over what was sent as one segmented message as one message again (UDP_GRO), with
// the segment size beside it. Messages land in a small ring of 64 KiB slots that stays in the
// cache; `next` walks over the datagrams in them.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/ip/socket.hpp"

namespace tutti::device::ip {

class DatagramBatch {
 public:
  /// `slots`: messages that one call may take.
  explicit DatagramBatch(std::size_t slots);

  /// Takes what is there; returns the number of messages (0: nothing, or a transient error).
  /// The datagrams of the previous call are gone.
  std::size_t receive(int fd);
  /// The next datagram of the last call; empty at the end.
  std::span<const std::byte> next();
  /// Whether `next` would return a datagram.
  bool pending() const { return slot_ < filled_; }

  /// Whether the last call took all that there was.
  bool drained() const { return filled_ < messages_.size(); }

  /// System calls so far.
  std::uint64_t calls() const { return calls_; }

 private:
  static constexpr std::size_t kSlotBytes = 65536;
  static constexpr std::size_t kControlBytes = 64;

  void prepare(std::size_t slot);
  std::size_t segment_bytes(const msghdr& header) const;

  std::unique_ptr<std::byte[]> storage_;
  std::unique_ptr<std::byte[]> control_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> vectors_;
  std::size_t filled_ = 0;
  std::size_t slot_ = 0;
  std::size_t offset_ = 0;
  std::size_t segment_ = 0;
  std::uint64_t calls_ = 0;
};

/// Turns receive offload on. False where the kernel has none: datagrams then come one by one.
bool enable_receive_offload(int fd);
/// Whether the kernel takes segmented sends on this socket.
bool probe_send_offload(int fd);

}  // namespace tutti::device::ip
