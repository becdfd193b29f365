// Recovery of a slot exchange whose device loses entries: a rank asks for entries that it misses,
// and a sender asks which of its own were read before it reuses their slot. Without such a device
// nothing is sent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/slot_exchange.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/peer_watch.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class SlotRecovery {
 public:
  /// `slots`: the device's slot exchange; null: none. The references outlive this.
  SlotRecovery(Rank me, std::uint32_t size, device::SlotExchange* slots, MessageSender& messages,
               PeerWatch& peers, observe::Counters& counters)
      : me_(me),
        size_(size),
        slots_(slots != nullptr && slots->loses() ? slots : nullptr),
        messages_(messages),
        peers_(peers),
        counters_(counters) {}

  /// False: the message does not concern a slot exchange.
  bool on_message(Instant now, Rank from, const protocol::Message& message);
  /// Asks ranks for their missing entries of the current exchange, whose device loses entries.
  void request_entries(Instant now, std::span<const Rank> ranks);
  /// Asks ranks that have not acknowledged an exchange which ones they have left.
  void request_acks(Instant now);
  /// Ranks that may miss an entry of this rank; a rank that has closed needs none.
  std::vector<Rank> unacked() const;

  /// Tells the ranks that may still ask that this one closes and answers no more.
  void announce_close(Instant now);
  /// Whether a rank has announced that it closes.
  bool has_closed(Rank rank) const;

 private:
  Rank me_;
  std::uint32_t size_;
  device::SlotExchange* slots_;  ///< null unless entries can be lost
  MessageSender& messages_;
  PeerWatch& peers_;
  observe::Counters& counters_;
  std::vector<Rank> closed_ranks_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
