// The time that a host or its network interface takes to process arrivals: threads that share a
// core's issue slot and memory path, a processor that copies, and a PCIe bus between them.
//
// Pure arithmetic on virtual time; the code of a datapath kernel runs elsewhere. The figures are
// those of [Khalilov24] 6.3 and fig. 5. Each constant says whether it is calibrated or assumed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// The cost of one completion to a datapath thread.
struct CompletionWork {
  double instructions = 0;    ///< instructions issued; `memory_share` of them access memory
  double printed_cycles = 0;  ///< as printed in [Khalilov24] table I
  double cycles = 0;          ///< from completion to completion on an idle core
};

/// [Khalilov24] table I: 11.9 (UC) and 5.2 (UD) for one thread, 8 MiB in chunks of 4 KiB. The unit
/// there is GiB/s, but 598 cycles at 1.8 GHz allow only 11.48 GiB/s and the authors' program prints
/// multiples of 10^9 bytes, so the figures are read as GB/s. A datagram's `cycles` are calibrated,
/// because the printed 1084 omit the polling of the copies' completions.
constexpr CompletionWork kUnreliableConnected{
    .instructions = 66, .printed_cycles = 598, .cycles = 598};
constexpr CompletionWork kUnreliableDatagram{
    .instructions = 113, .printed_cycles = 1084, .cycles = 1396};
/// Time of an operation beside its completions: 8 MiB / 11.9 GB/s - 2048 * 598 cycles.
constexpr Picoseconds kOperationCost = nanoseconds(24'500);

/// A processor whose hardware threads hide each other's latency [Khalilov24] 6.3.
struct ThreadedProcessor {
  std::uint32_t cores = 16;
  std::uint32_t threads_per_core = 16;
  double hertz = 1.8e9;
  double issue_per_cycle = 1;  ///< issue slots shared by a core's threads
  /// Assumed: a third of the instructions access memory, and each occupies the core's path to
  /// memory and doorbells for three cycles.
  double memory_share = 1.0 / 3;
  double memory_cycles = 3;
  /// Assumed: rate at which the interface accepts re-posted receives and copies from all cores.
  double doorbells_per_second = 200e6;
};

/// Threads that handle completions, assigned core by core.
///
/// Each completion passes its core's issue slot and memory path and the interface's doorbells,
/// where threads queue for each other; its other latencies overlap freely. Throughput is that of
/// this closed network by mean value analysis (Bard, Schweitzer); one thread alone takes exactly
/// `cycles`.
class DatapathModel {
 public:
  DatapathModel(const ThreadedProcessor& processor, const CompletionWork& work)
      : processor_(processor), work_(work) {}

  /// Rate of all threads together; `threads` is at most cores * threads_per_core.
  double completions_per_second(std::uint32_t threads) const;
  /// Time from taking a completion to being ready for the next, with this many busy threads.
  Picoseconds time_per_completion(std::uint32_t threads) const;
  /// Payload rate if each completion stands for `bytes` (a chunk, or a UC message of many packets).
  double bytes_per_second(std::uint32_t threads, std::uint64_t bytes) const {
    return completions_per_second(threads) * static_cast<double>(bytes);
  }
  /// The smallest power of two of threads that keeps up with a payload rate; 0 if none does.
  std::uint32_t threads_for(double bits_per_second, std::uint64_t bytes) const;

 private:
  ThreadedProcessor processor_;
  CompletionWork work_;
};

/// A host core that polls, copies from staging and re-posts: 100 to 133 Gbit/s in chunks of 4 KiB
/// ([Khalilov24] fig. 5).
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

/// Workers that each handle one completion at a time.
class WorkerPool {
 public:
  explicit WorkerPool(std::uint32_t workers) : free_at_(workers) {}

  /// Handles a completion visible at `seen`, which takes `time`; returns when it is done.
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
  Picoseconds latency = nanoseconds(350);           ///< one way, including PCIe switch and root
  std::uint64_t bits_per_second = 252'000'000'000;  ///< in each direction: PCIe 4.0 x16
  std::uint32_t completion_bytes = 64;              ///< written after the data
  std::uint32_t descriptor_bytes = 64;              ///< read for each post that is not inline
  bool inline_descriptor = true;                    ///< the doorbell carries the descriptor
  /// The datapath runs on the interface, so completions do not pass the bus.
  bool completions_stay = false;
  Picoseconds local_latency = nanoseconds(100);  ///< from arrival to a thread on the interface
};

/// The two directions of an interface, each serving one transfer at a time.
class NicModel {
 public:
  explicit NicModel(const BusSettings& settings)
      : settings_(settings), speed_(settings.bits_per_second) {}

  /// A send is posted at `posted`; returns when the interface has its payload.
  Picoseconds fetched(Picoseconds posted, std::uint64_t bytes);
  /// A packet has arrived at `arrived`; returns when software sees its completion, by which time
  /// the payload is in place. `completes` is false for all packets of a message but the last.
  Picoseconds delivered(Picoseconds arrived, std::uint64_t bytes, bool completes = true);

 private:
  BusSettings settings_;
  WireSpeed speed_;
  Picoseconds reads_free_{};
  Picoseconds writes_free_{};
};

}  // namespace tutti::sim
