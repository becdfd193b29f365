// Retained blocks: copies of the short blocks that this rank has multicast
// (Settings::retain_bytes). A Broadcast of such a block needs no handshake: the root's call ends
// when the block has been sent, a receiver's call when the block has arrived.
//
// A rank that lost chunks asks the root and READs them from the copy ([Khalilov24] 3.3 with a ring
// of one rank). The root releases the copy when every rank has acknowledged the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/delivery_acks.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class RetainedBlocks {
 public:
  /// `endpoint` serves the READs and must outlive this object. A request that arrives before this
  /// rank has sent the block is answered only when the time `grace` has passed after the sending,
  /// because until then the block's multicast may still arrive.
  RetainedBlocks(Rank me, device::Endpoint& endpoint, Nanoseconds grace)
      : me_(me), endpoint_(endpoint), grace_(grace) {}

  /// Copies the block that this rank has sent in collective `epoch`.
  void keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block);
  bool empty() const { return blocks_.empty(); }
  bool holds(std::uint32_t epoch) const { return index_of(epoch) < blocks_.size(); }
  /// True if `rank` has acknowledged every retained block.
  bool all_at(Rank rank, const protocol::DeliveryAcks& acks) const {
    return blocks_.empty() || acks.has(rank, blocks_.back().epoch);
  }

  /// Handles a request of rank `from` for chunks that `from` misses; false if too many requests are
  /// pending. If this rank retains the block, it answers at once. Otherwise it has perhaps not sent
  /// the block yet: `serve` answers later, unless `from` acknowledges the block first.
  bool ask(Rank from, const protocol::Message& request, protocol::Outbox& outbox);
  /// Answers requests that are due; returns the number of ranges served.
  std::uint64_t serve(Instant now, const protocol::DeliveryAcks& acks, protocol::Outbox& outbox);
  /// The time at which `serve` must be called.
  Instant next_deadline() const;

  /// Releases the blocks that every rank has acknowledged.
  void release(const protocol::DeliveryAcks& acks);

 private:
  struct Block {
    std::uint32_t epoch = 0;
    std::vector<std::byte> bytes;
    device::MemoryKey key{};
    bool registered = false;
  };
  struct Request {
    Rank from;
    protocol::Message message;
    Instant due = kNever;
  };

  /// The index of a block in blocks_, or blocks_.size() if the block is not retained.
  std::size_t index_of(std::uint32_t epoch) const;
  void answer(const Request& request, protocol::Outbox& outbox);

  Rank me_;
  device::Endpoint& endpoint_;
  Nanoseconds grace_;
  std::deque<Block> blocks_;                  ///< retained blocks, by epoch
  std::vector<std::vector<std::byte>> free_;  ///< storage of released blocks, for reuse
  std::vector<Request> requests_;
};

}  // namespace tutti::engine
