// Delivery ACKs: sends the ACKs of this rank, and records which ranks have acknowledged the blocks
// that this rank retains (engine::RetainedBlocks).
//
// An ACK is delayed and cumulative. Once every rank has begun a collective, all earlier epochs
// count as acknowledged without messages.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class DeliveryAcks {
 public:
  /// Every epoch before `first_epoch` counts as acknowledged. This rank sends its ACKs `delay`
  /// after the last arrival of a block, so that one ACK covers a run of Broadcasts.
  DeliveryAcks(std::uint32_t size, std::uint32_t first_epoch, Nanoseconds delay)
      : size_(size), delay_(delay), acked_by_all_(first_epoch - 1) {}

  // Functions for a receiver, which sends ACKs.

  /// Schedules the ACK for the block of `root` in this epoch and for all earlier blocks of `root`.
  void schedule(Instant now, Rank root, std::uint32_t epoch);
  /// The time at which `send` must be called; kNever if no ACK is pending.
  Instant due() const { return due_; }
  /// Sends the pending ACKs; returns their number.
  std::uint32_t send(Outbox& outbox);

  // Functions for a root, which collects ACKs.

  void on_ack(Rank from, std::uint32_t epoch);
  bool has(Rank rank, std::uint32_t epoch) const;
  bool all_but(Rank me, std::uint32_t epoch) const;

  /// Forgets all ACKs, and counts every epoch before `epoch` as acknowledged. A rank that
  /// retains no block calls this when a Broadcast begins: an ACK that is 2^31 epochs old would
  /// compare as one of a later epoch.
  void restart(std::uint32_t epoch) {
    acked_by_all_ = epoch - 1;
    acked_.clear();
  }

  /// Records that every rank has begun `epoch`, which acknowledges all earlier epochs.
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
  /// Last acknowledged epoch, by rank; empty before the first ACK.
  std::vector<std::uint32_t> acked_;
};

}  // namespace tutti::protocol
