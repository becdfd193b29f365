// How long a host or its network interface takes for what the fabric delivers: threads that share a
// core's issue slot and memory path, a processor that copies, and a PCIe bus between.
//
// Pure arithmetic on virtual time: a datapath kernel is run by its own code, its time comes from
// here. The figures are those of rows K13 and K17; what is calibrated and what is assumed is said
// beside each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// What one completion costs a datapath thread.
struct CompletionWork {
  double instructions = 0;    ///< issued, of which `memory_share` access memory
  double printed_cycles = 0;  ///< as the source prints them
  double cycles = 0;          ///< from completion to completion on an idle core
};

/// Table I of the source, one thread, 8 MiB in chunks of 4 KiB: 11.9 and 5.2. The table says GiB/s,
/// the authors' program prints bytes by 10^9, and as GiB/s the first would be more than 598 cycles
/// at 1.8 GHz allow (11.48). Read as GB/s, their printed 598 cycles leave 24.5 us of an operation
/// for its begin and end as the client times it. A datagram's `cycles` are calibrated: the printed
/// 1084 are without the loop's look at the copies' completions.
constexpr CompletionWork kUnreliableConnected{
    .instructions = 66, .printed_cycles = 598, .cycles = 598};
constexpr CompletionWork kUnreliableDatagram{
    .instructions = 113, .printed_cycles = 1084, .cycles = 1396};
/// What an operation takes beside its completions: 8 MiB / 11.9 GB/s - 2048 * 598 cycles.
constexpr Picoseconds kOperationCost = nanoseconds(24'500);

/// A processor whose hardware threads hide each other's latency (row K13).
struct ThreadedProcessor {
  std::uint32_t cores = 16;
  std::uint32_t threads_per_core = 16;
  double hertz = 1.8e9;
  double issue_per_cycle = 1;  ///< shared by a core's threads
  /// Assumed: a third of the instructions access memory, and each occupies the core's path to the
  /// memory and the doorbells for three cycles.
  double memory_share = 1.0 / 3;
  double memory_cycles = 3;
  /// Assumed: what the interface takes of re-posted receives and copies from all cores together.
  double doorbells_per_second = 200e6;
};

/// Threads that handle completions, filled core by core.
///
/// Each completion passes its core's issue slot and memory path and the interface's doorbells,
/// where threads queue for each other, and otherwise waits for latencies, which overlap freely.
/// Throughput is that of this closed network by mean value analysis (Bard, Schweitzer); one thread
/// alone takes exactly `cycles`.
class DatapathModel {
 public:
  DatapathModel(const ThreadedProcessor& processor, const CompletionWork& work)
      : processor_(processor), work_(work) {}

  /// Of all threads together; `threads` up to cores * threads_per_core.
  double completions_per_second(std::uint32_t threads) const;
  /// From taking a completion to being ready for the next, when so many threads are busy.
  Picoseconds time_per_completion(std::uint32_t threads) const;
  /// Payload rate when each completion stands for `bytes` (a chunk, or a UC message of many
  /// packets).
  double bytes_per_second(std::uint32_t threads, std::uint64_t bytes) const {
    return completions_per_second(threads) * static_cast<double>(bytes);
  }
  /// The fewest threads, among powers of two, that keep up with a payload rate; 0 where none do.
  std::uint32_t threads_for(double bits_per_second, std::uint64_t bytes) const;

 private:
  ThreadedProcessor processor_;
  CompletionWork work_;
};

/// A host core that polls, copies from staging and re-posts (row K17): 100 to 133 Gbit/s in 4 KiB.
struct HostCore {
  Picoseconds per_completion = nanoseconds(120);
  double copy_bytes_per_second = 25e9;

  Picoseconds time_of(std::uint64_t bytes) const {
    const double copy_ps = static_cast<double>(bytes) / copy_bytes_per_second * 1e12;
    return per_completion + Picoseconds{static_cast<std::int64_t>(copy_ps)};
  }
  double bits_per_second(std::uint64_t bytes) const {
    return static_cast<double>(bytes) * 8 / to_seconds(time_of(bytes));
  }
};

/// Workers that each handle one completion after the other.
class WorkerPool {
 public:
  explicit WorkerPool(std::uint32_t workers) : free_at_(workers) {}

  /// A completion is seen at `seen` and takes `time`; returns when it has been handled.
  Picoseconds handle(std::uint32_t worker, Picoseconds seen, Picoseconds time) {
    Picoseconds& free_at = free_at_[worker];
    free_at = (seen < free_at ? free_at : seen) + time;
    return free_at;
  }
  Picoseconds free_at(std::uint32_t worker) const { return free_at_[worker]; }
  std::uint32_t workers() const { return static_cast<std::uint32_t>(free_at_.size()); }

 private:
  std::vector<Picoseconds> free_at_;
};

/// The bus between memory and interface.
struct BusSettings {
  Picoseconds latency = nanoseconds(350);           ///< one way, PCIe switch and root included
  std::uint64_t bits_per_second = 252'000'000'000;  ///< each way: PCIe 4.0 x16
  std::uint32_t completion_bytes = 64;              ///< written behind the data
  std::uint32_t descriptor_bytes = 64;              ///< read per post, if not inline
  bool inline_descriptor = true;                    ///< the doorbell carries the descriptor
  bool completions_stay = false;  ///< the datapath runs on the interface: no bus to its completions
  Picoseconds local_latency = nanoseconds(100);  ///< from arrival to a thread there
};

/// An interface's two directions, each busy with one transfer after the other.
class NicModel {
 public:
  explicit NicModel(const BusSettings& settings)
      : settings_(settings), speed_(settings.bits_per_second) {}

  /// A send is posted at `posted`; returns when its payload is in the interface and may leave.
  Picoseconds fetched(Picoseconds posted, std::uint64_t bytes);
  /// A packet has arrived at `arrived`; returns when software sees its completion, the payload
  /// being where it belongs by then. `completes`: false for the inner packets of a message (K10).
  Picoseconds delivered(Picoseconds arrived, std::uint64_t bytes, bool completes = true);

 private:
  BusSettings settings_;
  WireSpeed speed_;
  Picoseconds reads_free_{};
  Picoseconds writes_free_{};
};

}  // namespace tutti::sim
