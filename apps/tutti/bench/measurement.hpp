// Timing of one collective from a common start to the last end, with a data check and the traffic
// of the interfaces.
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
  double max_sent = 0;          ///< bytes sent by the busiest interface
  double max_received = 0;      ///< bytes received by the busiest interface
  double total = 0;             ///< bytes sent and received by all interfaces
  std::optional<double> ideal;  ///< total of a multicasting network without headers; none where
                                ///< ranks share an interface
  std::vector<std::pair<double, double>> by_rank;  ///< sent, received
};

/// The result; the same on every rank.
struct Measured {
  std::string algorithm;               ///< algorithm in use
  std::vector<std::int64_t> times_ns;  ///< sorted durations, each to the end of the last rank
  int late_starts = 0;                 ///< repetitions dropped because a rank missed the start
  std::uint64_t wrong_bytes = 0;       ///< wrong bytes over all ranks and checked repetitions
  int checked = 0;                     ///< checked repetitions
  std::vector<std::pair<std::string, std::uint64_t>> counters;  ///< increase over all ranks
  /// Bytes that each rank handed to the network in one repetition, as its device counts them: data
  /// and messages, and the headers of reliable connections only.
  std::vector<double> sent_bytes_by_rank;
  std::optional<LinkBytes> link;

  /// The percentile by nearest rank; `percent` 0 is the minimum.
  std::int64_t percentile_ns(double percent) const;
  double mean_ns() const;
};

/// Warms up, then measures; collective. Fails with the failure of the collective, or if no
/// repetition had a common start.
Result<Measured> measure(Session& session, const ExerciseOptions& exercise,
                         const MeasureOptions& options);

}  // namespace tutti::app
