// The aggregator's side of a reduction in the network: an ordered, keyed buffer that the ranks
// write into, a reduction as soon as all contributions to a segment are there, always in the same
// order, and the result on its way to whoever gets it.
//
// An aggregator serves the calls of its communicator one after the other, each by an operation that
// waits for the first rank to say what is called. Nothing here can be overrun: a rank writes only
// where it has credit, which returns in pulses when the segments of a pulse are reduced (T4), and a
// rank that says to have written more ends the communicator with an error that names it.
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

/// Zeros that the system provides as they are touched: filling 64 MiB for a job that begins would
/// hold up the others, and what another job left must not show.
struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using ZeroedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// The buffers of one communicator at its aggregator, which outlive the calls. Used by the engine's
/// thread only.
class InNetworkWindow {
 public:
  /// The bytes that a window takes, for so many ranks without the aggregator.
  static std::uint64_t memory_bytes(std::uint32_t ranks, const WindowConfig& terms);

  /// The terms have passed `check`.
  InNetworkWindow(std::uint32_t ranks, const WindowConfig& terms);

  /// Makes each rank's part writable, by a key of its own.
  Status open(device::Endpoint& endpoint);
  void close(device::Endpoint& endpoint);

  std::uint32_t ranks() const { return ranks_; }
  const WindowConfig& terms() const { return terms_; }
  device::MemoryKey key(std::uint32_t rank) const { return keys_[rank]; }
  std::span<const std::byte> record(std::uint32_t rank) const {
    return part(rank).first(CallRecord::kBytes);
  }
  /// Where `rank` writes a segment.
  const std::byte* place(std::uint32_t rank, std::uint32_t segment) const {
    const std::uint64_t slot = segment % terms_.slots;
    return part(rank).data() + CallRecord::kBytes + slot * terms_.segment_bytes;
  }

  /// Results on their way out, in cells of a segment.
  std::span<std::byte> cells(std::uint32_t first, std::uint32_t count) {
    return {results_.get() + std::uint64_t{first} * terms_.segment_bytes,
            std::size_t{count} * terms_.segment_bytes};
  }
  bool free(std::uint32_t first, std::uint32_t count) const;
  void take(std::uint32_t first, std::uint32_t count);
  void give_back(std::uint32_t first, std::uint32_t count);

  /// Called by the engine when the communicator is over: every rank has left (ok), or it failed.
  std::function<void(const Status&)> on_end;
  std::vector<bool> left;  ///< ranks that call no more

 private:
  std::uint64_t part_bytes() const;
  std::span<std::byte> part(std::uint32_t rank) const {
    return {memory_.get() + rank * part_bytes(), part_bytes()};
  }

  std::uint32_t ranks_;
  WindowConfig terms_;
  ZeroedBytes memory_;   ///< by rank: its record, its slots
  ZeroedBytes results_;  ///< as many cells as slots
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
  std::vector<std::uint32_t> arrived_;  ///< segments that each rank has written
  std::vector<std::uint64_t> result_keys_;
  std::vector<std::byte> factors_;  ///< in rank order, twice: an order may begin anywhere
  std::vector<const std::byte*> operands_;
  std::size_t first_operand_ = 0;  ///< its rank
  std::uint32_t granted_ = 0;      ///< segments that each rank may have written
  std::uint32_t reduced_ = 0;
  std::uint32_t posted_ = 0;  ///< results that wait for their acknowledgement
  Instant now_{};
  bool refused_ = false;
  bool full_ = false;  ///< waits for room for results
  bool over_ = false;
};

}  // namespace tutti::engine
