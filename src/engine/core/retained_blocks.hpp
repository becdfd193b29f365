// Copies of the short blocks that this rank has multicast (Settings::retain_bytes). The root's call
// ends when its block has left, the receivers' when it has arrived, without a handshake: a rank
// that lost chunks asks the root and READs them from the copy ([Khalilov24] 3.3 with a ring of
// one). A copy is released when every rank has acknowledged the block.
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
  /// `endpoint` serves the READs and outlives this. After a block is sent, chunks requested earlier
  /// count as lost once `grace` has passed.
  RetainedBlocks(Rank me, device::Endpoint& endpoint, Nanoseconds grace)
      : me_(me), endpoint_(endpoint), grace_(grace) {}

  /// Copies the block that this rank has sent in a collective.
  void keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block);
  bool holds(std::uint32_t epoch) const { return index_of(epoch) < blocks_.size(); }
  bool empty() const { return blocks_.empty(); }
  /// Whether `rank` has acknowledged every retained block.
  bool all_at(Rank rank, const protocol::DeliveryAcks& acks) const {
    return blocks_.empty() || acks.has(rank, blocks_.back().epoch);
  }

  /// `from` misses chunks. A request for a block already sent is answered at once. An earlier one
  /// is answered later, and only if the block has not arrived by then: that rank was waiting for
  /// this one and has lost nothing. False: too many requests are pending.
  bool ask(Rank from, const protocol::Message& request, protocol::Outbox& outbox);
  /// Answers due requests; returns how many ranges that served.
  std::uint64_t serve(Instant now, const protocol::DeliveryAcks& acks, protocol::Outbox& outbox);
  /// When `serve` must be called.
  Instant next_deadline() const;

  /// Releases blocks that every rank has acknowledged.
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

  /// Index of the block, or the number of blocks if it is not retained.
  std::size_t index_of(std::uint32_t epoch) const;
  void answer(const Request& request, protocol::Outbox& outbox);

  Rank me_;
  device::Endpoint& endpoint_;
  Nanoseconds grace_;
  std::deque<Block> blocks_;                  ///< by epoch
  std::vector<std::vector<std::byte>> free_;  ///< storage for reuse
  std::vector<Request> requests_;
};

}  // namespace tutti::engine
