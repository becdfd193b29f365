// Times a collective from a common start to the last rank's end, checks its data and measures the
// traffic of the interfaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/exercise.hpp"
#include "session.hpp"

namespace tutti::app {

struct MeasureOptions {
  int iterations = 20;
  int warmup = 10;
  bool check = true;
  bool link_bytes = false;
};

/// Bytes on the ranks' network interfaces in one operation.
struct LinkBytes {
  double max_sent = 0;      ///< bytes sent by the busiest interface
  double max_received = 0;  ///< bytes received by the busiest interface
  double total = 0;         ///< bytes sent and received by all interfaces
  /// Bytes that a multicasting network needs in total, without headers; unset if ranks share an
  /// interface.
  std::optional<double> ideal;
  std::vector<std::pair<double, double>> by_rank;  ///< bytes sent and received, indexed by rank
};

/// The result of a measurement, which is the same on every rank.
struct Measured {
  std::string algorithm;  ///< name of the algorithm in use
  /// Sorted times from the common start to the last rank's end, in ns.
  std::vector<std::int64_t> times_ns;
  /// Number of repetitions dropped because a rank missed the common start.
  int late_starts = 0;
  /// Number of wrong bytes, over all ranks and checked repetitions.
  std::uint64_t wrong_bytes = 0;
  int checked = 0;  ///< number of checked repetitions
  /// Increase of each counter during the measurement, summed over all ranks.
  std::vector<std::pair<std::string, std::uint64_t>> counters;
  /// Bytes that each rank's device handed to the network in one repetition: data and messages, with
  /// headers only for reliable connections.
  std::vector<double> sent_bytes_by_rank;
  std::optional<LinkBytes> link;

  /// The percentile of the times by nearest rank; a `percent` of 0 gives the minimum.
  std::int64_t percentile_ns(double percent) const;
  double mean_ns() const;
};

/// Warms up, then measures; a collective. Error: the collective failed, or no repetition had a
/// common start.
Result<Measured> measure(Session& session, const ExerciseOptions& exercise,
                         const MeasureOptions& options);

}  // namespace tutti::app
