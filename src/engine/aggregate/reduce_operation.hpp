// The reduce operation: the aggregator's side of a reduction. The ranks write their contributions
// into the aggregator window. When all contributions to a segment are present, the aggregator folds
// them in a fixed order and sends the result to the ranks that need it.
//
// An aggregator serves the calls of its communicator one after the other. Each call has its own
// operation, which waits until the first rank announces the call. A rank may write only as many
// segments as its credits allow; credits return in batches as segments are reduced ([Xu25] 1.3). If
// a rank writes more, the communicator fails with an error that names this rank.
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

/// Memory that the operating system zeroes at the first access, so that no job sees data of another
/// one. Zeroing a whole window at once would delay the other jobs.
struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using ZeroedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// The window and the result buffer of one communicator at its aggregator; they outlive the calls.
/// Only the owner of the engine uses them.
class InNetworkWindow {
 public:
  /// Bytes that the window and the result buffer need together for `ranks` ranks. The aggregator
  /// does not count as a rank.
  static std::uint64_t memory_bytes(std::uint32_t ranks, const WindowConfig& terms);

  /// `terms` must be valid according to `check`.
  InNetworkWindow(std::uint32_t ranks, const WindowConfig& terms);

  /// Registers each rank's part of the window under a separate memory key, so that no other rank
  /// can write there.
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

  /// Memory for `count` outgoing results from cell `first` on. A cell holds one segment.
  std::span<std::byte> cells(std::uint32_t first, std::uint32_t count) {
    return {results_.get() + std::uint64_t{first} * terms_.segment_bytes,
            std::size_t{count} * terms_.segment_bytes};
  }
  bool free(std::uint32_t first, std::uint32_t count) const;
  void take(std::uint32_t first, std::uint32_t count);
  void give_back(std::uint32_t first, std::uint32_t count);

  /// Function that the engine calls when the communicator ends: with ok if every rank has left,
  /// else with the error.
  std::function<void(const Status&)> on_end;
  std::vector<bool> left;  ///< by rank: true if the rank makes no more calls

 private:
  std::uint64_t part_bytes() const;
  std::span<std::byte> part(std::uint32_t rank) const {
    return {memory_.get() + rank * part_bytes(), part_bytes()};
  }

  std::uint32_t ranks_;
  WindowConfig terms_;
  ZeroedBytes memory_;   ///< by rank: the call record and the window slots
  ZeroedBytes results_;  ///< cells for results, as many as a rank has window slots
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
  Missing missing() const override;

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
  std::vector<std::uint32_t> arrived_;  ///< by rank: number of segments that the rank has written
  std::vector<std::uint64_t> result_keys_;
  /// The factors of all ranks for premultiplied_sum, by rank. The list is stored twice in a row,
  /// because a reduction may begin at any rank and continue with rank 0 after the last rank.
  std::vector<std::byte> factors_;
  std::vector<const std::byte*> operands_;
  std::size_t first_operand_ = 0;  ///< rank whose contribution is the first operand of a reduction
  /// By the credits sent so far, each rank may write this many segments in all.
  std::uint32_t granted_ = 0;
  std::uint32_t reduced_ = 0;
  std::uint32_t posted_ = 0;  ///< number of results sent but not yet acknowledged
  Instant now_{};
  bool refused_ = false;
  /// True while the next fold waits for a result cell whose earlier result is still being sent.
  bool full_ = false;
  bool over_ = false;
};

}  // namespace tutti::engine
