// A rank's side of a reduction by an aggregator: the rank writes its contributions into the
// aggregator's window as credits allow, and receives its results. The aggregator is the last rank
// of the communicator.
//
// Results of a Reduce-Scatter and of a Reduce are written to this rank. Those of an Allreduce are
// multicast by Broadcasts, which are operations of their own and run beside this one, so that
// uplink and downlink overlap.
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

/// The buffers of one call at one rank; they belong to the caller until completion.
struct InNetworkBuffers {
  /// The vector, as consecutive blocks. The plan covers one part of each block, which begins
  /// `part_offset_bytes` into the block.
  std::span<const std::byte> input{};
  std::uint64_t block_bytes = 0;
  std::uint64_t part_offset_bytes = 0;
  /// Destination of this rank's results, as long as the part: the part of its block in a
  /// Reduce-Scatter, the root's part in a Reduce, otherwise empty. It may be the same part of the
  /// input but must not overlap the input otherwise.
  std::span<std::byte> result{};
  std::array<std::byte, 8> factor{};  ///< factor of this rank for premultiplied_sum, one element
};

class ContributeOperation final : public Operation {
 public:
  /// `call` has passed `check` and has elements; `reducer` has its operation and type.
  ContributeOperation(const InNetworkCall& call, const WindowConfig& terms,
                      const InNetworkBuffers& buffers, const reduction::Reducer& reducer);

  /// True: contributions reach the aggregator only from ranks that have begun this call.
  bool confirms_earlier() const override { return true; }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_immediate(Instant now, Rank from, std::uint32_t count) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  /// False for Reduce-Scatter: beside an Allgather, to which it leaves the uplink, starting
  /// together would slow it.
  bool begins_together() const override { return call_.kind != InNetworkKind::reduce_scatter; }
  bool locally_complete() const override;
  bool done() const override;
  void finish() override;
  observe::Phase phase() const override { return observe::Phase::data; }
  std::string missing() const override;

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
  std::vector<std::byte> scratch_;  ///< memory for results that must not overwrite the contribution
  std::span<std::byte> landing_;    ///< memory into which the aggregator writes the results
  device::MemoryKey landing_key_;
  bool registered_ = false;
  std::uint64_t window_key_ = 0;
  std::uint32_t granted_ = 0;   ///< segments that this rank may have written in all
  std::uint32_t next_ = 0;      ///< first segment that is not written yet
  std::uint32_t last_ = 0;      ///< last segment that this rank sends
  std::uint32_t results_ = 0;   ///< results received so far
  bool record_posted_ = false;  ///< true: the call record was posted
  bool acknowledged_ = false;   ///< true: the aggregator has acknowledged every write
  Instant stalled_since_{};
};

/// Tells the aggregator that this rank makes no more calls; done once no rank makes any.
class InNetworkLeave final : public Operation {
 public:
  InNetworkLeave() : Operation({"leave", "in_network", kNoRank, 0}) {}
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return left_; }
  bool done() const override { return left_; }
  observe::Phase phase() const override { return observe::Phase::handshake; }

 protected:
  void start(Instant now, bool barrier) override;

 private:
  bool left_ = false;
};

}  // namespace tutti::engine
