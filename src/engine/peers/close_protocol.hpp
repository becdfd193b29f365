// How a rank closes: it keeps serving until no other rank may need something of it, and asks those
// that may until they answer.
#pragma once

#include <cstdint>

#include "engine/core/retention.hpp"
#include "engine/exchange/slot_recovery.hpp"
#include "engine/peers/peer_watch.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class CloseProtocol {
 public:
  /// The references outlive this.
  CloseProtocol(std::uint32_t size, Retention& retention, SlotRecovery& slots, PeerWatch& peers)
      : size_(size), retention_(retention), slots_(slots), peers_(peers) {}

  /// Begins to close: sends the delivery ACKs that peers wait for, and watches the ranks that may
  /// still need something of this one (`needed`).
  void begin(Instant now);
  bool begun() const { return begun_; }
  /// Whether a rank may still ask this one for a block or an entry.
  bool needed() const { return !retention_.empty() || !slots_.unacked().empty(); }
  /// Asks the ranks that have not acknowledged, until they do.
  void poll(Instant now);

 private:
  std::uint32_t size_;
  Retention& retention_;
  SlotRecovery& slots_;
  PeerWatch& peers_;
  bool begun_ = false;
  Instant request_at_ = kNever;  ///< set while closing
};

}  // namespace tutti::engine
