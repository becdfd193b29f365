// Times a collective from the common start of all ranks until the last rank has finished. Also
// checks the received data and measures the bytes on the interfaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/exercise.hpp"
#include "session.hpp"

namespace tutti::app {

using Counters = std::vector<std::pair<std::string, std::uint64_t>>;

/// The increase of each counter between two readings; 0 for one that fell, such as the number of
/// open connections.
std::vector<std::uint64_t> increases(const Counters& before, const Counters& after);

struct MeasureOptions {
  int iterations = 20;
  int warmup = 10;
  bool check = true;
  bool link_bytes = false;
};

/// Bytes on the ranks' network interfaces during one run of the collective.
struct LinkBytes {
  double max_sent = 0;      ///< bytes sent by the busiest interface
  double max_received = 0;  ///< bytes received by the busiest interface
  double total = 0;         ///< bytes sent and received by all interfaces
  /// Smallest possible value of `total`, in bytes without headers: each block is sent once, and
  /// every other rank receives it once. Set only for Broadcast and Allgather, and only if no ranks
  /// share an interface.
  std::optional<double> ideal;
  /// Bytes sent and received on each rank's interface, indexed by rank.
  std::vector<std::pair<double, double>> by_rank;
};

/// The result of a measurement, which is the same on every rank.
struct Measured {
  std::string algorithm;  ///< name of the algorithm that ran
  /// Times from the common start until the last rank has finished, in ns, in ascending order.
  std::vector<std::int64_t> times_ns;
  /// Number of repetitions that are not counted because a rank missed the common start.
  int late_starts = 0;
  /// Number of wrong bytes in the received data, over all ranks and checked repetitions.
  std::uint64_t wrong_bytes = 0;
  int checked = 0;  ///< number of checked repetitions
  /// Name of each counter that increased during the measurement, and its increase summed over all
  /// ranks.
  Counters counters;
  /// Bytes that the device of each rank sent per repetition, indexed by rank. Multicast chunks
  /// count without headers, frames of reliable connections with headers.
  std::vector<double> sent_bytes_by_rank;
  std::optional<LinkBytes> link;

  /// The percentile of times_ns by the nearest-rank method, in ns; 0 percent is the minimum.
  std::int64_t percentile_ns(double percent) const;
  double mean_ns() const;
};

/// Measures an exercise after warm-up repetitions; every rank must call it. Error: the collective
/// failed, or no repetition had a common start.
Result<Measured> measure(Session& session, const ExerciseOptions& exercise,
                         const MeasureOptions& options);

}  // namespace tutti::app
