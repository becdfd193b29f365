// Sends this rank's block in a multicast collective: waits for activation by the predecessor, obeys
// credits and pace, activates the successor, and sends tail probes.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/multicast/block_sender.hpp"
#include "engine/multicast/multicast_call.hpp"
#include "protocol/credits/credit_window.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class MulticastSender {
 public:
  explicit MulticastSender(MulticastCall& call) : call_(call) {}

  /// Prepares the sender and marks this rank's block as received. The layout, chunk map, sequencer
  /// and fetch ring of the call must exist already.
  void start();
  /// Records that data may be sent from now on.
  void become_ready(Instant now);
  /// Handles an activation; false if `from` is not this rank's predecessor.
  bool on_activation(Rank from);
  /// Retransmits chunks of this rank's block.
  void again(Range psns) { block_->again(psns); }

  /// Sends what credits and pace allow; returns true if anything was sent.
  bool poll(Instant now);
  /// Sends a tail probe from time to time; not called once the right neighbour has every chunk.
  /// From the probe, a rank that lost the block or its tail learns that the block was sent.
  void probe_tail(Instant now);
  Instant next_tail_probe() const { return next_repeat_; }
  /// The time at which `poll` must run next; `polled_at` is the time when it ran last.
  Instant next_deadline(Instant polled_at) const;

  bool has_block() const { return block_ != nullptr; }
  bool blocked() const { return block_ && block_->blocked(); }
  bool sent_all() const { return sent_all_; }
  bool has_again() const { return block_ && block_->has_again(); }
  bool reads_posted() const { return block_ && block_->reads_posted(); }
  bool queue_filled() const { return block_ && block_->queue_filled(); }
  protocol::CreditWindow& credits() { return *credits_; }

 private:
  CommunicatorContext& context() const { return *call_.context; }
  std::uint64_t excess_rate() const;
  std::uint64_t activation_threshold_bytes() const;
  bool send_block(Instant now);
  void place_own_up_to(std::uint32_t psn);
  void watch_readers();
  void note_stall(Instant now, bool stalled, bool worked);
  void finish_sending(Instant now);

  MulticastCall& call_;
  /// Sender of this rank's block; null if this rank sends none.
  std::unique_ptr<BlockSender> block_;
  std::unique_ptr<protocol::CreditWindow> credits_;
  /// Number of bytes of this rank's block that were copied to the receive buffer.
  std::uint64_t own_placed_bytes_ = 0;
  bool activated_ = false;
  bool sent_all_ = true;
  bool successor_activated_ = false;
  bool readers_watched_ = false;
  Instant stalled_since_{};
  Instant next_repeat_ = kNever;
  Nanoseconds repeat_after_{};
};

}  // namespace tutti::engine
