// Copies of the short blocks that this rank has multicast (Settings::retain_bytes). The root's call
// ends when its block has left, the receivers' when it has come, and no handshake (K6) follows: who
// lost chunks asks the root, and reads them from the copy (K5 with a ring of one). A copy goes when
// everybody is known to have the block.
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
  /// `endpoint` serves the reads, and outlives this. What was asked for before it was sent has come
  /// by multicast within `grace`, or is lost.
  RetainedBlocks(Rank me, device::Endpoint& endpoint, Nanoseconds grace)
      : me_(me), endpoint_(endpoint), grace_(grace) {}

  /// Copies the block that this rank has sent in a collective.
  void keep(Instant now, std::uint32_t epoch, std::span<const std::byte> block);
  bool holds(std::uint32_t epoch) const { return place_of(epoch) < kept_.size(); }
  bool empty() const { return kept_.empty(); }
  /// Whether every copy is known to be at `rank`.
  bool all_at(Rank rank, const protocol::DeliveryAcks& receipts) const {
    return kept_.empty() || receipts.has(rank, kept_.back().epoch);
  }

  /// `from` misses chunks. Answered at once where the block has been sent; else some time after,
  /// unless it has come by then: who asks early has waited for this rank, and lost nothing. False:
  /// there are too many questions.
  bool ask(Rank from, const protocol::Message& request, protocol::Outbox& outbox);
  /// Answers what is due; returns how many ranges that served.
  std::uint64_t serve(Instant now, const protocol::DeliveryAcks& receipts,
                      protocol::Outbox& outbox);
  /// When `serve` must be called.
  Instant next_deadline() const;

  /// Lets go of what everybody has.
  void release(const protocol::DeliveryAcks& receipts);

 private:
  struct Kept {
    std::uint32_t epoch = 0;
    std::vector<std::byte> block;
    device::MemoryKey key{};
    bool registered = false;
  };
  struct Question {
    Rank from;
    protocol::Message request;
    Instant due = kNever;
  };

  /// In `kept_`; past its end: there is none.
  std::size_t place_of(std::uint32_t epoch) const;
  void answer(const Question& question, protocol::Outbox& outbox);

  Rank me_;
  device::Endpoint& endpoint_;
  Nanoseconds grace_;
  std::deque<Kept> kept_;                     ///< by epoch
  std::vector<std::vector<std::byte>> free_;  ///< storage to use again
  std::vector<Question> questions_;
};

}  // namespace tutti::engine
