// Recovery of slot exchanges on a device that loses entries. A rank asks for the entries that it
// misses. A rank that cannot reuse a slot yet asks for the missing ACKs of its entries. On a device
// that loses no entries, nothing is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/circular.hpp"
#include "device/slot_exchange.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/closed_peers.hpp"
#include "observe/counters.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class SlotRecovery {
 public:
  /// Bit in the match slot, set for the last part of an entry that is sent over the reliable
  /// connection. It differs from schedule::kCtsSlots, so a CTS is not taken for a part.
  static constexpr std::uint32_t kLastPart = 0x4000'0000u;

  /// `slots` is the endpoint's slot exchange, or null if it has none. The referenced objects must
  /// outlive this one.
  SlotRecovery(std::uint32_t size, device::SlotExchange* slots, MessageSender& messages,
               const ClosedPeers& closed, observe::Counters& counters)
      : size_(size),
        slots_(slots != nullptr && slots->loses() ? slots : nullptr),
        messages_(messages),
        closed_(closed),
        counters_(counters),
        answered_(slots_ != nullptr ? size : 0) {}

  /// Handles a message; false if it does not concern a slot exchange.
  bool on_message(Instant now, Rank from, const protocol::Message& message);
  /// The way in which a requested entry is sent: by multicast or over the reliable connection.
  enum class Way : std::uint8_t { multicast, reliable };
  /// Asks `ranks` to send their entries of the current exchange again; only for a device that loses
  /// entries. `epoch` is the epoch of the exchange's collective: with Way::reliable the entries
  /// arrive as data of this collective.
  void request_entries(Instant now, std::span<const Rank> ranks, std::uint32_t epoch, Way way);
  /// True if data of the ended collective `epoch` may be a late answer to a request of this rank.
  bool may_have_requested(std::uint32_t epoch) const {
    return requests_reliably_ && !circular_before(requested_epoch_, epoch);
  }
  /// Asks the ranks whose ACKs are missing, or keep this rank's slot busy, which exchange they have
  /// finished last.
  void request_acks(Instant now);
  /// Ranks that may miss an entry of this rank; a rank that has closed needs none.
  std::vector<Rank> unacked() const;

  /// The last slot exchange that this rank has finished; 0: none, or a device that loses no
  /// entries.
  std::uint32_t acked() const {
    return slots_ != nullptr && slots_->exchange() != 0 ? slots_->acked() : 0;
  }
  /// Records that a rank has finished a slot exchange.
  void on_acked(Rank from, std::uint32_t exchange) {
    if (slots_ != nullptr) slots_->on_acked(from, exchange);
  }

 private:
  bool answer(Instant now, Rank from, const protocol::Message& request);
  std::vector<Rank> still_open(std::vector<Rank> ranks) const;

  std::uint32_t size_;
  device::SlotExchange* slots_;  ///< slot exchange of the endpoint; null unless it can lose entries
  MessageSender& messages_;
  const ClosedPeers& closed_;
  observe::Counters& counters_;
  /// True: this rank has requested that an entry be sent over the reliable connection.
  bool requests_reliably_ = false;
  /// Epoch of the last collective for which this rank requested an entry over the reliable
  /// connection.
  std::uint32_t requested_epoch_ = 0;
  /// By rank: the last exchange whose entry this rank has sent to that rank over the reliable
  /// connection. The connection loses nothing, so a repeated request for that entry needs no
  /// answer.
  std::vector<std::optional<std::uint32_t>> answered_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
