// Recovery of slot exchanges on a device that loses entries. A rank asks for the entries that it
// misses. Before a rank reuses a slot, it asks which ranks have read the slot's last entry. On a
// device that loses no entries, nothing is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/circular.hpp"
#include "device/slot_exchange.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/peer_watch.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class SlotRecovery {
 public:
  /// Bit of the match slot that marks the last part of an entry sent over the reliable connection.
  static constexpr std::uint32_t kLastPart = 0x8000'0000u;

  /// `slots` is the endpoint's slot exchange, or null if it has none. The referenced objects must
  /// outlive this one.
  SlotRecovery(Rank me, std::uint32_t size, device::SlotExchange* slots, MessageSender& messages,
               PeerWatch& peers, observe::Counters& counters)
      : me_(me),
        size_(size),
        slots_(slots != nullptr && slots->loses() ? slots : nullptr),
        messages_(messages),
        peers_(peers),
        counters_(counters),
        answered_(slots_ != nullptr ? size : 0) {}

  /// Handles a message; false if it does not concern a slot exchange.
  bool on_message(Instant now, Rank from, const protocol::Message& message);
  /// The way in which a requested entry is sent: by multicast or over the reliable connection.
  enum class Way : std::uint8_t { multicast, reliable };
  /// Asks `ranks` for their entries of the current exchange, which have not arrived. `epoch` is the
  /// epoch of the exchange's collective. Called only for a device that loses entries. An entry sent
  /// over the reliable connection arrives as data of the collective.
  void request_entries(Instant now, std::span<const Rank> ranks, std::uint32_t epoch, Way way);
  /// True if data of the ended collective `epoch` may be a late answer to a request of this rank.
  bool may_have_requested(std::uint32_t epoch) const {
    return requests_reliably_ && !circular_before(requested_epoch_, epoch);
  }
  /// Asks the ranks whose ACKs are missing which exchange they have left last.
  void request_acks(Instant now);
  /// Ranks that may miss an entry of this rank; a rank that has closed needs none.
  std::vector<Rank> unacked() const;

  /// Tells the other ranks that this rank closes and answers no further requests. `next_epoch`:
  /// epoch of the first collective that this rank has not begun.
  void announce_close(Instant now, std::uint32_t next_epoch);
  /// Whether a rank has announced that it closes.
  bool has_closed(Rank rank) const;
  bool any_closed() const { return !closed_.empty(); }
  /// A rank that has closed without beginning the collective of this epoch; kNoRank: none.
  Rank closed_before(std::uint32_t epoch) const;

 private:
  bool answer(Instant now, Rank from, const protocol::Message& request);

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
  /// True: this rank has requested that an entry be sent over the reliable connection.
  bool requests_reliably_ = false;
  /// Epoch of the last collective for which this rank requested an entry over the reliable
  /// connection.
  std::uint32_t requested_epoch_ = 0;
  /// By rank: the last exchange whose entry this rank has sent by the reliable connection. That
  /// connection loses nothing, so a repeated request for the same exchange needs no answer.
  std::vector<std::optional<std::uint32_t>> answered_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
