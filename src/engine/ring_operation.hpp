// Allgather by a ring of reliable writes, and Broadcast by a pipelined chain of the same: what
// point-to-point systems do at their best, and the yardstick for the multicast.
//
// Each rank tells its left neighbour the key of its receive buffer; the left neighbour writes
// segments into it, in the ring's order, and forwards each as soon as it has come.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/operation.hpp"

namespace tutti::engine {

class RingOperation final : public Operation {
 public:
  /// As MulticastOperation::allgather.
  static std::unique_ptr<RingOperation> allgather(std::span<const std::byte> own,
                                                  std::span<std::byte> receive);
  /// As MulticastOperation::broadcast.
  static std::unique_ptr<RingOperation> broadcast(std::span<std::byte> buffer, Rank root);

  bool confirms_earlier() const override { return gather_ && !buffer_.empty(); }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  bool locally_complete() const override { return done(); }
  bool done() const override;
  void finish() override;
  observe::Phase phase() const override { return observe::Phase::data; }
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  RingOperation(const Description& description, std::span<std::byte> buffer,
                std::span<const std::byte> own, bool gather);

  /// A segment in the order in which this rank receives (or, as `sent`, forwards) them.
  std::span<std::byte> segment(std::uint64_t position, std::uint32_t owner_shift) const;
  bool post_next(Instant now);

  std::span<std::byte> buffer_;
  std::span<const std::byte> own_;
  bool gather_;
  std::uint64_t block_bytes_ = 0;
  std::uint64_t segments_per_block_ = 0;
  std::uint64_t to_receive_ = 0;
  std::uint64_t to_send_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  bool right_ready_ = false;
  std::uint64_t right_key_ = 0;
  device::MemoryKey key_;
  bool registered_ = false;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
