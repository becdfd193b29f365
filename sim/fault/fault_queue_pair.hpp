// A multicast queue pair that drops, delays, duplicates and damages chunks as a fault plan
// prescribes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "sim/fault/fault_injector.hpp"
#include "sim/fault/fault_plan.hpp"

namespace tutti::device::fault {

/// State that an endpoint shares with its queue pairs.
struct FaultContext {
  FaultPlan plan{};
  Rank rank = kNoRank;
  std::shared_ptr<InjectedCounters> counters{};
  /// Current time, as the caller last passed it to the endpoint.
  std::atomic<std::int64_t> now_ns{0};
};

class FaultQueuePair final : public MulticastQueuePair {
 public:
  /// The wrapped queue pair `inner` and the `context` must outlive the decorator.
  FaultQueuePair(MulticastQueuePair& inner, FaultContext& context);

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::uint64_t unsent_bytes() override { return inner_->unsent_bytes(); }
  bool reads_posted() override { return inner_->reads_posted(); }
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override {
    return inner_->copy_and_verify(chunk, destination);
  }
  void release() override;
  bool set_resolver(PlacementResolver* resolver) override { return inner_->set_resolver(resolver); }
  Instant next_arrival(Instant now) override;
  int receive_descriptor() const override { return inner_->receive_descriptor(); }
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override;

  /// The instant at which the earliest delayed chunk is due; kNever if no chunk is delayed.
  Instant next_due() const { return Instant{next_due_ns_.load(std::memory_order_relaxed)}; }

 private:
  /// A delayed chunk, with a copy of its header and payload.
  struct Held {
    ReceivedChunk chunk;
    std::vector<std::byte> bytes;
    Instant due{};
    /// The chunk is delivered at `due`, or earlier once `passed_`, the count of chunks that have
    /// passed, reaches this value.
    std::uint64_t due_count = 0;
  };

  const FaultRule* fate(const Subject& subject) const { return decide(context_->plan, subject); }
  Result<std::uint32_t> post_part(const ChunkRun& run, std::uint32_t first, std::uint32_t count);
  std::size_t let_go(Instant now, std::span<ReceivedChunk> chunks);
  /// Applies the plan to an arriving chunk; returns whether the chunk passes at once.
  bool pass(Instant now, ReceivedChunk& chunk);
  void hold(const ReceivedChunk& chunk, Instant due, std::uint64_t due_count);
  void damage(const Subject& subject, ReceivedChunk& chunk);
  void note_due();

  MulticastQueuePair* inner_;
  FaultContext* context_;
  bool sends_ = false;     ///< whether any rule applies to chunks at the sender
  bool receives_ = false;  ///< whether any rule applies to chunks at the receiver
  OccurrenceCounter sent_;
  OccurrenceCounter received_;
  std::uint32_t probes_sent_ = 0;
  std::uint64_t passed_ = 0;
  std::vector<Held> held_;
  /// Delayed or corrupted chunks that poll() has returned, retained until they are released.
  std::vector<Held> out_;
  std::atomic<std::int64_t> next_due_ns_{kNever.nanoseconds};
};

}  // namespace tutti::device::fault
