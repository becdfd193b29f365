// Applies a fault plan to each packet. A random draw decides whether a packet gets a fault. The
// draw depends only on the seed and the identity of the packet, so other traffic does not change
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "device/device.hpp"
#include "device/frame_tap.hpp"
#include "sim/fault/fault_plan.hpp"

namespace tutti::device::fault {

/// The number of faults injected so far, by kind.
struct Injected {
  std::uint64_t chunks_dropped_at_sender = 0;
  /// Number of payload bytes of the chunks that a decorator dropped at the sender.
  std::uint64_t bytes_dropped_at_sender = 0;
  std::uint64_t chunks_dropped_at_receiver = 0;
  std::uint64_t bytes_dropped_at_receiver = 0;
  std::uint64_t chunks_delayed = 0;
  std::uint64_t chunks_reordered = 0;
  std::uint64_t chunks_duplicated = 0;
  std::uint64_t chunks_corrupted = 0;
  std::uint64_t bytes_corrupted = 0;  ///< number of payload bytes of the corrupted chunks
  std::uint64_t frames_dropped = 0;
  std::uint64_t frames_duplicated = 0;
  std::uint64_t probes_dropped = 0;
};

/// The sum of the injected faults of all endpoints of a decorated device. Thread-safe.
class InjectedCounters {
 public:
  void add(std::uint64_t Injected::*counter, std::uint64_t amount = 1);
  Injected snapshot() const;

 private:
  mutable std::mutex mutex_;
  Injected sum_;
};

/// The identity of a packet, on which the decision about its fault depends.
struct Subject {
  FaultSite place = FaultSite::receiver;
  Packet packet = Packet::chunk;
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  Rank receiver = kNoRank;  ///< receiving rank; kNoRank for a multicast at its sender
  /// For a chunk: number of earlier copies of this chunk at this site. For a frame: number of all
  /// earlier frames from `source` to `receiver`. For a probe: number of earlier probes from
  /// `source` at this site.
  std::uint32_t occurrence = 0;
};

/// The first rule of `plan` that applies to the packet, or null.
const FaultRule* decide(const FaultPlan& plan, const Subject& subject);
/// A random draw for the details of a fault, such as the bit to invert. It is independent of the
/// draw that decided on the fault.
std::uint64_t detail(const FaultPlan& plan, const Subject& subject);

/// Counts the copies of each chunk that pass one queue pair.
class OccurrenceCounter {
 public:
  std::uint32_t of(std::uint32_t epoch, std::uint32_t psn, Rank source) const;
  /// Counts one more copy of a chunk and returns the number of earlier copies.
  std::uint32_t count(std::uint32_t epoch, std::uint32_t psn, Rank source);

 private:
  struct Key {
    std::uint32_t epoch;
    std::uint32_t psn;
    Rank source;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  using Counts = std::unordered_map<Key, std::uint32_t, Hash>;

  // Numbers of copies of the latest chunks. When recent_ is full, it becomes older_ and the old
  // counts are dropped; they are not needed, because the copies of a chunk are close together in
  // time.
  Counts recent_;
  Counts older_;
};

/// Drops and duplicates frames of reliable connections as a fault plan prescribes. Thread-safe.
class PlannedFrameTap final : public FrameTap {
 public:
  PlannedFrameTap(FaultPlan plan, std::shared_ptr<InjectedCounters> counters)
      : plan_(std::move(plan)), counters_(std::move(counters)) {}
  unsigned copies(Rank from, Rank to, std::size_t) override;

 private:
  FaultPlan plan_;
  std::shared_ptr<InjectedCounters> counters_;
  std::mutex mutex_;
  std::map<std::pair<Rank, Rank>, std::uint32_t> sent_;
};

}  // namespace tutti::device::fault
