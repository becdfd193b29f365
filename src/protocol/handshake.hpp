// The final handshake ([Khalilov24] 3.3): a rank that has every chunk sends a message to its left
// neighbour, and awaits the same message from its right neighbour. After both messages no rank
// reads from the buffers of this rank, so they belong to the caller again.
#pragma once

#include <cstdint>

#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class Handshake {
 public:
  Handshake(Rank me, std::uint32_t size, std::uint32_t epoch)
      : left_(rank_of((index(me) + size - 1) % size)),
        right_(rank_of((index(me) + 1) % size)),
        epoch_(epoch),
        alone_(size == 1),
        heard_(alone_) {}
  /// The handshake of a collective in which no rank reads from another: done once this rank has
  /// every chunk.
  static Handshake unneeded(Rank me, std::uint32_t epoch) { return {me, 1, epoch}; }

  /// Sends the handshake message to the left neighbour; called when this rank has every chunk.
  void finish(Outbox& outbox) {
    if (told_) return;
    told_ = true;
    if (!alone_) outbox.send(left_, MessageKind::final, epoch_);
  }
  /// Handles the handshake message of the right neighbour; false if another rank sent it.
  bool on_final(Rank from) {
    if (alone_ || from != right_) return false;
    heard_ = true;
    return true;
  }
  bool told() const { return told_; }
  bool heard() const { return heard_; }
  bool done() const { return told_ && heard_; }
  /// The rank whose handshake message has not arrived; kNoRank: none.
  Rank awaited() const { return heard_ ? kNoRank : right_; }

 private:
  Rank left_;
  Rank right_;
  std::uint32_t epoch_;
  bool alone_;
  bool told_ = false;
  bool heard_;
};

}  // namespace tutti::protocol
