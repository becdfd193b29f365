// The aggregator's side of a reduction: a window into which the ranks write their contributions, a
// fold of each segment in a fixed order once every contribution to it is there, and the delivery of
// results to the ranks that need them.
//
// An aggregator serves the calls of its communicator one after the other, each by an operation that
// waits for the first rank to announce the call. A window cannot be overrun: a rank writes only
// with credit, which returns in batches as segments are reduced ([Xu25] 1.3). A rank that writes
// more ends the communicator with an error that names it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/aggregate/window_plan.hpp"
#include "engine/core/operation.hpp"
#include "reduction/reducer.hpp"

namespace tutti::engine {

/// Memory that the operating system zeroes when it is first touched. Filling 64 MiB for one job
/// would stall the others, and data of another job must not be visible.
struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using ZeroedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// The window and the result buffer of one communicator at its aggregator; they outlive the calls.
/// Only the owner of the engine uses them.
class InNetworkWindow {
 public:
  /// Bytes of a window for this many ranks, the aggregator not counted.
  static std::uint64_t memory_bytes(std::uint32_t ranks, const WindowConfig& terms);

  /// `terms` has passed `check`.
  InNetworkWindow(std::uint32_t ranks, const WindowConfig& terms);

  /// Registers each rank's part, writable under a key of its own.
  Status open(device::Endpoint& endpoint);
  void close(device::Endpoint& endpoint);

  std::uint32_t ranks() const { return ranks_; }
  const WindowConfig& terms() const { return terms_; }
  device::MemoryKey key(std::uint32_t rank) const { return keys_[rank]; }
  std::span<const std::byte> record(std::uint32_t rank) const {
    return part(rank).first(CallRecord::kBytes);
  }
  /// The address at which `rank` writes a segment.
  const std::byte* place(std::uint32_t rank, std::uint32_t segment) const {
    const std::uint64_t slot = segment % terms_.slots;
    return part(rank).data() + CallRecord::kBytes + slot * terms_.segment_bytes;
  }

  /// The memory of outgoing results, in cells of one segment each.
  std::span<std::byte> cells(std::uint32_t first, std::uint32_t count) {
    return {results_.get() + std::uint64_t{first} * terms_.segment_bytes,
            std::size_t{count} * terms_.segment_bytes};
  }
  bool free(std::uint32_t first, std::uint32_t count) const;
  void take(std::uint32_t first, std::uint32_t count);
  void give_back(std::uint32_t first, std::uint32_t count);

  /// The engine calls this when the communicator ends: with ok if every rank has left, else with
  /// the error.
  std::function<void(const Status&)> on_end;
  std::vector<bool> left;  ///< by rank: true if the rank makes no more calls

 private:
  std::uint64_t part_bytes() const;
  std::span<std::byte> part(std::uint32_t rank) const {
    return {memory_.get() + rank * part_bytes(), part_bytes()};
  }

  std::uint32_t ranks_;
  WindowConfig terms_;
  ZeroedBytes memory_;   ///< by rank: call record, then window slots
  ZeroedBytes results_;  ///< result cells, as many as window slots
  std::vector<bool> busy_;
  std::vector<device::MemoryKey> keys_;
};

class ReduceOperation final : public Operation {
 public:
  explicit ReduceOperation(std::shared_ptr<InNetworkWindow> window);

  bool confirms_earlier() const override { return true; }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  void on_immediate(Instant now, Rank from, std::uint32_t count) override;
  void on_completion(Instant now, const device::Completion& completion) override;
  bool poll(Instant now) override;
  bool locally_complete() const override;
  bool done() const override;
  observe::Phase phase() const override;
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  bool accept_record(std::uint32_t rank);
  void adopt(const CallRecord& record);
  void refuse(Refusal refusal, std::uint32_t rank);
  void all_left();
  bool present(std::uint32_t segment) const;
  bool reduce_next(Instant now);
  void gather_operands(std::uint32_t segment);
  void fold(std::byte* to, std::uint32_t segment) const;
  bool deliver(Instant now, std::uint32_t segment);
  bool collect_group(std::uint32_t segment);
  void broadcast(std::uint32_t group, std::uint32_t first_cell);
  void note_full();
  void return_credits(Instant now);
  void submit_successor();

  std::shared_ptr<InNetworkWindow> window_;
  std::optional<InNetworkCall> call_;
  std::optional<reduction::Reducer> reducer_;
  InNetworkPlan plan_;
  std::vector<std::uint32_t> arrived_;  ///< by rank: segments that the rank has written
  std::vector<std::uint64_t> result_keys_;
  std::vector<std::byte> factors_;  ///< by rank, twice, because a fold may start at any rank
  std::vector<const std::byte*> operands_;
  std::size_t first_operand_ = 0;  ///< rank whose contribution is the first operand
  std::uint32_t granted_ = 0;      ///< segments that each rank may have written in all
  std::uint32_t reduced_ = 0;
  std::uint32_t posted_ = 0;  ///< results sent and not yet acknowledged
  Instant now_{};
  bool refused_ = false;
  bool full_ = false;  ///< true: the fold waits for free result cells
  bool over_ = false;
};

}  // namespace tutti::engine
