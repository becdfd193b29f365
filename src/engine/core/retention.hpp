// Retention: lets short Broadcasts run without a handshake. The root retains a copy of its block
// until the delivery ACK of every receiver has arrived, and serves ranks that lost chunks from this
// copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.hpp"
#include "engine/core/network_estimates.hpp"
#include "engine/core/retained_blocks.hpp"
#include "engine/core/settings.hpp"
#include "engine/messages/message_sender.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/delivery_acks.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class Retention {
 public:
  /// The referenced objects must outlive this one.
  Retention(Rank me, std::uint32_t size, const Settings& settings, device::Endpoint& endpoint,
            MessageSender& messages, NetworkEstimates& network, observe::Counters& counters);

  /// Prepares for a Broadcast that `covers` permits; called when it begins, at every rank.
  void begin(std::uint32_t epoch) {
    if (blocks_.empty()) acks_.restart(epoch);
  }
  /// Whether a Broadcast of this size runs without a handshake because its root retains a copy. The
  /// result is the same on all ranks.
  bool covers(std::uint64_t broadcast_bytes) const;

  // Functions for a receiver.

  /// Schedules the delivery ACK for the block that `root` sent in the collective `epoch`.
  void schedule_ack(Instant now, Rank root, std::uint32_t epoch) {
    acks_.schedule(now, root, epoch);
  }
  /// Sends the scheduled ACKs at once, even if they are not due yet.
  void send_acks(Instant now);

  // Functions for a root.

  /// Retains a copy of the block that this rank has sent in a collective.
  void keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block);
  /// Answers the request of `from` for chunks of a block that this rank retains or will retain
  /// soon.
  void answer(Instant now, Rank from, const protocol::Message& request);
  /// Answers the request of `from` for chunks of a collective that has ended at this rank.
  void answer_late(Instant now, Rank from, const protocol::Message& request);
  void on_ack(Rank from, std::uint32_t epoch);
  /// Records that every rank has begun the collective `epoch`, which acknowledges all earlier
  /// blocks.
  void begun_by_all(std::uint32_t epoch);
  /// Whether `rank` has acknowledged every retained block.
  bool all_at(Rank rank) const { return blocks_.all_at(rank, acks_); }

  /// Sends the delivery ACKs that are due, and answers requests that arrived before the block was
  /// retained.
  void serve(Instant now);
  /// The time at which `serve` must be called.
  Instant next_deadline() const { return std::min(acks_.due(), blocks_.next_deadline()); }

 private:
  std::uint32_t size_;
  std::uint64_t max_bytes_;  ///< the root of a Broadcast of at most this many bytes retains a copy
  MessageSender& messages_;
  NetworkEstimates& network_;
  observe::Counters& counters_;
  protocol::DeliveryAcks acks_;
  RetainedBlocks blocks_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
