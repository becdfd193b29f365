// The contribute operation: a rank's side of a reduction by an aggregator. The rank writes its
// contributions into the aggregator window as credits allow, and receives its results. The
// aggregator is the last rank of the communicator.
//
// The aggregator writes the results of a Reduce-Scatter or a Reduce to the ranks that need them. It
// multicasts the results of an Allreduce by Broadcasts, which are separate operations and run at
// the same time as this operation, so that uplink and downlink overlap.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/aggregate/window_plan.hpp"
#include "engine/core/operation.hpp"
#include "reduction/reducer.hpp"

namespace tutti::engine {

/// The buffers of one call at one rank. The caller keeps them valid until the call completes.
struct InNetworkBuffers {
  /// The whole vector as consecutive blocks. The aggregator reduces one part of each block; the
  /// part begins at the offset `part_offset_bytes` of the block.
  std::span<const std::byte> input{};
  std::uint64_t block_bytes = 0;
  std::uint64_t part_offset_bytes = 0;
  /// Memory for this rank's results; empty if the rank gets none. In a Reduce-Scatter it receives
  /// the reduced part of this rank's block; at the root of a Reduce, it receives the reduced part
  /// of the vector. It may be the same memory as that part of `input`, but must not overlap any
  /// other part.
  std::span<std::byte> result{};
  std::array<std::byte, 8> factor{};  ///< one element: this rank's factor for premultiplied_sum
};

class ContributeOperation final : public Operation {
 public:
  /// `call` must be valid according to `check` and have at least one element. `reducer` must be for
  /// the operation and the element type of `call`.
  ContributeOperation(const InNetworkCall& call, const WindowConfig& terms,
                      const InNetworkBuffers& buffers, const reduction::Reducer& reducer);

  /// Returns true: on this communicator only the aggregator multicasts, and it ends a call only
  /// after every rank has begun the call, and so has finished all earlier operations.
  bool confirms_earlier() const override { return true; }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_immediate(Instant now, Rank from, std::uint32_t count) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  /// True if all ranks should start this call together. False for a Reduce-Scatter: a common start
  /// makes it slower beside an Allgather, whose multicast has precedence on the uplink.
  bool begins_together() const override { return call_.kind != InNetworkKind::reduce_scatter; }
  bool locally_complete() const override;
  bool done() const override;
  void finish() override;
  observe::Phase phase() const override { return observe::Phase::data; }
  Missing missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  Rank aggregator() const;
  bool receives() const { return !buffers_.result.empty(); }
  bool joins() const { return call_.order == FoldOrder::ring; }
  std::uint32_t expected() const { return receives() ? plan_.segments_per_block() : 0; }
  std::span<const std::byte> contribution(std::uint32_t segment) const;
  bool open_placement();
  bool post_record(Instant now);
  bool post_segment(Instant now, std::uint32_t segment);
  bool post_some(Instant now);
  void note_stall(Instant now, bool stalled);
  void join(std::uint32_t in_block);

  InNetworkCall call_;
  WindowConfig terms_;
  InNetworkBuffers buffers_;
  reduction::Reducer reducer_;
  InNetworkPlan plan_;
  std::array<std::byte, CallRecord::kBytes> record_{};
  /// Memory for results while the caller's result buffer still contains this rank's contribution.
  std::vector<std::byte> scratch_;
  std::span<std::byte> landing_;  ///< memory into which the aggregator writes the results
  device::MemoryKey landing_key_;
  bool registered_ = false;
  std::uint64_t window_key_ = 0;
  /// By the credits received so far, this rank may write this many segments in all.
  std::uint32_t granted_ = 0;
  std::uint32_t next_ = 0;      ///< index of the first segment that this rank has not written yet
  std::uint32_t last_ = 0;      ///< index of the last segment that this rank sends
  std::uint32_t results_ = 0;   ///< number of results received so far
  bool record_posted_ = false;  ///< true: the call record was posted
  bool acknowledged_ = false;   ///< true: the aggregator has acknowledged every write
  Instant stalled_since_{};
};

/// Tells the aggregator that this rank makes no further calls. The operation ends when every rank
/// has told the aggregator the same. A rank may leave much later than the others, so the operation
/// ends at `deadline` at the latest.
class InNetworkLeave final : public Operation {
 public:
  explicit InNetworkLeave(Instant deadline)
      : Operation({"leave", "in_network", kNoRank, 0}), deadline_(deadline) {}
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  bool poll(Instant now) override { return left_ = left_ || now >= deadline_; }
  Instant next_deadline() const override { return deadline_; }
  bool locally_complete() const override { return left_; }
  bool done() const override { return left_; }
  observe::Phase phase() const override { return observe::Phase::handshake; }

 protected:
  void start(Instant now, bool barrier) override;

 private:
  Instant deadline_;
  bool left_ = false;
};

}  // namespace tutti::engine
