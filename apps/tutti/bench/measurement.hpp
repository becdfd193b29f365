// Timing one collective: common start to last end, checked, with the traffic of the interfaces.
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

/// Bytes of the ranks' network interfaces in one operation.
struct LinkBytes {
  double max_sent = 0;          ///< by the interface that sent most
  double max_received = 0;      ///< by the interface that received most
  double total = 0;             ///< sent and received, all interfaces together
  std::optional<double> ideal;  ///< total of a multicasting network without headers; none where
                                ///< ranks share an interface
  std::vector<std::pair<double, double>> by_rank;  ///< sent, received
};

/// The same on every rank.
struct Measured {
  std::string algorithm;               ///< that carried it out
  std::vector<std::int64_t> times_ns;  ///< sorted; each to the end of the last rank
  int late_starts = 0;                 ///< repetitions dropped because a rank missed the start
  std::uint64_t wrong_bytes = 0;       ///< over all ranks and checked repetitions
  int checked = 0;                     ///< repetitions that were checked
  std::vector<std::pair<std::string, std::uint64_t>> counters;  ///< increase, all ranks together
  /// Bytes that each rank handed to the network in one repetition, as its device counts them (data
  /// and messages; of the headers only those of the reliable connections).
  std::vector<double> sent_bytes_by_rank;
  std::optional<LinkBytes> link;

  /// By nearest rank; `percent` 0 is the shortest.
  std::int64_t percentile_ns(double percent) const;
  double mean_ns() const;
};

/// Warms up, then measures; collective. Fails with the collective's own failure, or where no
/// repetition had a common start.
Result<Measured> measure(Session& session, const ExerciseOptions& exercise,
                         const MeasureOptions& options);

}  // namespace tutti::app
