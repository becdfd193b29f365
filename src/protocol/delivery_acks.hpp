// Tracks which ranks have acknowledged the blocks whose root keeps a copy for retransmission
// (engine::RetainedBlocks). Acknowledgements are delayed and cumulative; a synchronising collective
// acknowledges everything before it without messages.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class DeliveryAcks {
 public:
  /// Every epoch before `first_epoch` counts as acknowledged. An ACK is due `delay` after the last
  /// block.
  DeliveryAcks(std::uint32_t size, std::uint32_t first_epoch, Nanoseconds delay)
      : size_(size), delay_(delay), acked_by_all_(first_epoch - 1) {}

  // As receiver.
  /// Records that this rank has the block of `root` of this epoch and all earlier ones.
  void schedule(Instant now, Rank root, std::uint32_t epoch);
  /// When `send` is due; kNever if no ACK is pending.
  Instant due() const { return due_; }
  /// Sends the pending ACKs; returns their number.
  std::uint32_t send(Outbox& outbox);

  // As root.
  void on_ack(Rank from, std::uint32_t epoch);
  bool has(Rank rank, std::uint32_t epoch) const;
  bool all_but(Rank me, std::uint32_t epoch) const;

  /// Every rank has begun `epoch`, which acknowledges all earlier epochs.
  void begun_by_all(std::uint32_t epoch);

 private:
  struct Pending {
    Rank root;
    std::uint32_t epoch;
  };

  std::uint32_t size_;
  Nanoseconds delay_;
  std::uint32_t acked_by_all_;  ///< last epoch that every rank has acknowledged
  std::vector<Pending> pending_;
  Instant due_ = kNever;
  std::vector<std::uint32_t> acked_;  ///< last epoch, by rank; empty before the first ACK
};

}  // namespace tutti::protocol
