// Models the time that a host or its network interface takes to process arrivals: threads that
// share a core's issue slot and memory path, a processor that copies, and the PCIe bus between host
// and interface.
//
// The model is pure arithmetic on virtual time; datapath_run.hpp runs the receive code itself. The
// constants are those of [Khalilov24] 6.3 and fig. 5, unless a comment says that a constant is
// calibrated or assumed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/time.hpp"

namespace tutti::sim {

/// The cost of one completion to a datapath thread.
struct CompletionWork {
  double instructions = 0;    ///< number of instructions, memory accesses included
  double printed_cycles = 0;  ///< cycles of a completion as [Khalilov24] table I prints them
  double cycles = 0;          ///< cycles between two completions of a thread alone on its core
};

/// Costs of a completion from [Khalilov24] table I, which gives the rates 11.9 (UC) and 5.2 (UD)
/// for one thread. The rates are taken as GB/s although the table prints GiB/s, because 598 cycles
/// at 1.8 GHz allow only 11.48 GiB/s. The cycles of a datagram are calibrated, because the printed
/// 1084 cycles do not include polling for the completions of copies.
constexpr CompletionWork kUnreliableConnected{
    .instructions = 66, .printed_cycles = 598, .cycles = 598};
constexpr CompletionWork kUnreliableDatagram{
    .instructions = 113, .printed_cycles = 1084, .cycles = 1396};
/// Time that an operation takes in addition to its completions, from [Khalilov24] table I: 8 MiB /
/// 11.9 GB/s - 2048 * 598 cycles.
constexpr Picoseconds kOperationCost = nanoseconds(24'500);

/// A processor whose hardware threads hide each other's latency [Khalilov24] 6.3.
struct ThreadedProcessor {
  std::uint32_t cores = 16;
  std::uint32_t threads_per_core = 16;
  double hertz = 1.8e9;
  double issue_per_cycle = 1;  ///< issue slots per cycle, which a core's threads share
  /// Share of instructions that access memory, and the cycles for which an access occupies the
  /// core's path to memory and doorbells. Both are assumed.
  double memory_share = 1.0 / 3;
  double memory_cycles = 3;
  /// Number of doorbells that the interface accepts per second, from all cores together. A doorbell
  /// posts a receive or a copy. Assumed.
  double doorbells_per_second = 200e6;
};

/// Predicts the rate at which threads handle completions. Threads fill one core after the other.
///
/// Threads queue for the issue slot and the memory path of their core and for the interface's
/// doorbells; all other latencies overlap. The rate is that of this closed queueing network by mean
/// value analysis (Bard, Schweitzer); one thread alone takes exactly `cycles` per completion.
class DatapathModel {
 public:
  DatapathModel(const ThreadedProcessor& processor, const CompletionWork& work)
      : processor_(processor), work_(work) {}

  /// The rate of all threads together. `threads` is at most cores * threads_per_core.
  double completions_per_second(std::uint32_t threads) const;
  /// The time between two completions of the same thread, while `threads` threads are busy.
  Picoseconds time_per_completion(std::uint32_t threads) const;
  /// The payload rate if each completion covers `bytes` bytes, the size of a chunk or of a UC
  /// message of many packets.
  double bytes_per_second(std::uint32_t threads, std::uint64_t bytes) const {
    return completions_per_second(threads) * static_cast<double>(bytes);
  }
  /// The smallest number of threads, a power of two, that reaches a payload rate; 0 if no number
  /// does.
  std::uint32_t threads_for(double bits_per_second, std::uint64_t bytes) const;

 private:
  ThreadedProcessor processor_;
  CompletionWork work_;
};

/// A host core that polls, copies from staging and re-posts receives: 100 to 133 Gbit/s in chunks
/// of 4 KiB ([Khalilov24] fig. 5).
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

/// Models workers, each of which handles one completion at a time.
class WorkerPool {
 public:
  explicit WorkerPool(std::uint32_t workers) : free_at_(workers) {}

  /// Lets a worker handle a completion that becomes visible at `seen`. The worker begins once it is
  /// free, and needs the time `time`. Returns the instant at which the worker is done.
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

/// The settings of the bus between a host's memory and its network interface.
struct BusSettings {
  /// Latency of the bus in one direction, including PCIe switch and root.
  Picoseconds latency = nanoseconds(350);
  /// Rate of the bus in each direction: that of PCIe 4.0 x16.
  std::uint64_t bits_per_second = 252'000'000'000;
  /// Size of the completion that is written after the data, in bytes.
  std::uint32_t completion_bytes = 64;
  /// Size in bytes of the descriptor that the interface reads for each post, unless the doorbell
  /// carries the descriptor.
  std::uint32_t descriptor_bytes = 64;
  bool inline_descriptor = true;  ///< whether the doorbell carries the descriptor
  /// Whether the datapath runs on the interface. Completions then do not cross the bus.
  bool completions_stay = false;
  /// Time from the arrival of a packet until a thread on the interface sees it.
  Picoseconds local_latency = nanoseconds(100);
};

/// Models the bus of an interface, which carries one transfer at a time in each direction.
class NicModel {
 public:
  explicit NicModel(const BusSettings& settings)
      : settings_(settings), speed_(settings.bits_per_second) {}

  /// Returns the instant at which the interface has the payload of a send that was posted at
  /// `posted`.
  Picoseconds fetched(Picoseconds posted, std::uint64_t bytes);
  /// Returns the instant at which software sees the completion of a packet that arrived at
  /// `arrived`; the payload is then in place. `completes` is true only for the last packet of a
  /// message.
  Picoseconds delivered(Picoseconds arrived, std::uint64_t bytes, bool completes = true);

 private:
  BusSettings settings_;
  WireSpeed speed_;
  Picoseconds reads_free_{};
  Picoseconds writes_free_{};
};

}  // namespace tutti::sim
