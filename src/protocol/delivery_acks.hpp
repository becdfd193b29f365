// Who has what of the blocks that their root keeps a copy of instead of waiting (engine's
// RetainedBlocks). A receiver says so once it has had nothing new for a while, and once for all that
// came before; a collective that nobody ends before everybody has begun it says the same for
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/codec/message.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class DeliveryAcks {
 public:
  /// Nothing before `first_epoch` is asked for. A receipt is due `delay` after the last block.
  DeliveryAcks(std::uint32_t size, std::uint32_t first_epoch, Nanoseconds delay)
      : size_(size), delay_(delay), settled_(first_epoch - 1) {}

  // As receiver.
  /// This rank has what `root` sent in a collective, and everything before.
  void owe(Instant now, Rank root, std::uint32_t epoch);
  /// When `tell` is due; kNever: nothing is owed.
  Instant due() const { return due_; }
  /// Says what is owed; returns how many messages that takes.
  std::uint32_t tell(Outbox& outbox);

  // As root.
  void on_have(Rank from, std::uint32_t epoch);
  bool has(Rank rank, std::uint32_t epoch) const;
  bool all_but(Rank me, std::uint32_t epoch) const;

  /// Everybody has begun `epoch`, and so has everything before it.
  void begun_by_all(std::uint32_t epoch);

 private:
  struct Owed {
    Rank root;
    std::uint32_t epoch;
  };

  std::uint32_t size_;
  Nanoseconds delay_;
  std::uint32_t settled_;  ///< up to here everybody has everything
  std::vector<Owed> owed_;
  Instant due_ = kNever;
  std::vector<std::uint32_t> have_;  ///< by rank: up to here, as it said; empty until one does
};

}  // namespace tutti::protocol
