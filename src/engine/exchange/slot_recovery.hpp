// Recovery of slot exchanges on a device that loses entries. A rank asks for the entries that it
// misses. Before a rank reuses a slot, it asks which ranks have read the slot's last entry. On any
// other device nothing is sent.
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
  /// `slots` is the endpoint's slot exchange, or null if it has none. The referenced objects must
  /// outlive this one.
  SlotRecovery(Rank me, std::uint32_t size, device::SlotExchange* slots, MessageSender& messages,
               PeerWatch& peers, observe::Counters& counters)
      : me_(me),
        size_(size),
        slots_(slots != nullptr && slots->loses() ? slots : nullptr),
        messages_(messages),
        peers_(peers),
        counters_(counters) {}

  /// Handles a message; false if it does not concern a slot exchange.
  bool on_message(Instant now, Rank from, const protocol::Message& message);
  /// Asks these ranks for their entries of the current exchange, which have not arrived. Called
  /// only for a device that loses entries.
  void request_entries(Instant now, std::span<const Rank> ranks);
  /// Asks the ranks whose ACKs are missing which exchange they have left last.
  void request_acks(Instant now);
  /// Ranks that may miss an entry of this rank; a rank that has closed needs none.
  std::vector<Rank> unacked() const;

  /// Tells the ranks that may still request entries that this rank closes and answers no more.
  /// `next_epoch`: epoch of the first collective that this rank has not begun.
  void announce_close(Instant now, std::uint32_t next_epoch);
  /// Whether a rank has announced that it closes.
  bool has_closed(Rank rank) const;
  bool any_closed() const { return !closed_.empty(); }
  /// A rank that has closed without beginning the collective of this epoch; kNoRank: none.
  Rank closed_before(std::uint32_t epoch) const;

 private:
  struct Closed {
    Rank rank = kNoRank;
    std::uint32_t next_epoch = 0;
  };

  Rank me_;
  std::uint32_t size_;
  device::SlotExchange* slots_;  ///< slot exchange of the endpoint; null unless it can lose entries
  MessageSender& messages_;
  PeerWatch& peers_;
  observe::Counters& counters_;
  std::vector<Closed> closed_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
