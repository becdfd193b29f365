// The close protocol, by which a rank closes its communicator. The rank serves its peers until none
// of them can need a retained block or a slot entry of this rank, and asks them for missing slot
// ACKs. Then the rank announces its close, and stays until every peer has acknowledged the
// announcement. Otherwise a peer that missed the last ACK of this rank would wait for that ACK
// until a timeout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "engine/core/retention.hpp"
#include "engine/exchange/slot_recovery.hpp"
#include "engine/messages/message_sender.hpp"
#include "engine/peers/closed_peers.hpp"
#include "engine/peers/peer_watch.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CloseProtocol {
 public:
  /// The referenced objects must outlive this one.
  CloseProtocol(Rank me, std::uint32_t size, device::Endpoint& endpoint, MessageSender& messages,
                Retention& retention, SlotRecovery& slots, PeerWatch& peers, ClosedPeers& closed)
      : me_(me),
        size_(size),
        endpoint_(endpoint),
        messages_(messages),
        retention_(retention),
        slots_(slots),
        peers_(peers),
        closed_(closed) {}

  /// Begins to close: sends the delivery ACKs that peers wait for, and watches the ranks that may
  /// still need a block or an entry of this rank.
  void begin(Instant now);
  bool begun() const { return begun_; }
  /// Whether another rank may still ask this rank for a retained block or a slot entry.
  bool needed() const { return !awaited().empty(); }
  /// The other ranks that have not closed and may still ask this rank for a retained block or a
  /// slot entry.
  std::vector<Rank> awaited() const;
  /// Repeats the request for missing slot ACKs from time to time.
  void poll(Instant now);
  /// Tells the peers that this rank needs nothing more. The messages also acknowledge all that the
  /// peers have sent. `next_epoch`: the epoch of the first collective that this rank has not begun.
  void announce(Instant now, std::uint32_t next_epoch);
  /// True if no peer needs this rank any more: each peer has acknowledged all that this rank has
  /// sent, or has announced its own close. A peer that closes may leave without a last ACK.
  bool may_leave() const;
  /// Handles a peer's announcement that it closes its communicator.
  void on_announcement(Rank from, const protocol::Message& message);
  bool any_closed() const { return closed_.count() > 0; }
  bool has_closed(Rank peer) const { return closed_.contains(peer); }
  /// The first of these ranks that has closed its communicator; kNoRank: none.
  Rank first_closed(std::span<const Rank> ranks) const;

 private:
  Rank me_;
  std::uint32_t size_;
  device::Endpoint& endpoint_;
  MessageSender& messages_;
  Retention& retention_;
  SlotRecovery& slots_;
  PeerWatch& peers_;
  ClosedPeers& closed_;
  bool begun_ = false;
  Instant request_at_ = kNever;  ///< time of the next request for slot ACKs; kNever: not closing
};

}  // namespace tutti::engine
