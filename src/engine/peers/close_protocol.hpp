// How a rank closes its communicator: it serves its peers until none can need a retained block or a
// slot entry of this rank, and asks the peers for missing slot ACKs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/retention.hpp"
#include "engine/exchange/slot_recovery.hpp"
#include "engine/peers/peer_watch.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CloseProtocol {
 public:
  /// The referenced objects must outlive this one.
  CloseProtocol(std::uint32_t size, Retention& retention, SlotRecovery& slots, PeerWatch& peers)
      : size_(size), retention_(retention), slots_(slots), peers_(peers) {}

  /// Begins to close: sends the delivery ACKs that peers wait for, and watches the ranks that may
  /// still need a block or an entry of this rank.
  void begin(Instant now);
  bool begun() const { return begun_; }
  /// Whether another rank may still ask this rank for a retained block or a slot entry.
  bool needed() const { return !retention_.empty() || !slots_.unacked().empty(); }
  /// The ranks other than `me` that may still ask this rank for a retained block or a slot entry.
  std::vector<Rank> awaited(Rank me) const;
  /// Repeats the request for missing slot ACKs from time to time.
  void poll(Instant now);

 private:
  std::uint32_t size_;
  Retention& retention_;
  SlotRecovery& slots_;
  PeerWatch& peers_;
  bool begun_ = false;
  Instant request_at_ = kNever;  ///< time of the next request for slot ACKs; kNever: not closing
};

}  // namespace tutti::engine
