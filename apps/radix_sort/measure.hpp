// Runs the blocking and the overlapped variant in turn on the same keys, times their sorts and
// checks the results.
#pragma once

#include <tutti/communicator.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "sorter.hpp"

namespace radix_sort {

/// The sorts of one variant, with the same figures on every rank.
struct Timings {
  std::vector<std::int64_t> times_ns;  ///< duration of each sort on its slowest rank, in ns
  /// Duration of each phase in each sort, averaged over the ranks, in ns.
  std::array<std::vector<std::int64_t>, kPhases> phases_ns;

  /// Duration of the Allgathers on the rank that spent least time in them, in ns. This duration
  /// excludes the wait for late ranks, so it is the time that overlap can hide.
  std::vector<std::int64_t> least_allgather_ns;

  std::int64_t median_ns() const;
  std::int64_t median_least_allgather_ns() const;
  std::int64_t median_ns(Phase phase) const;
};

/// The results for one radix and number of keys.
struct Row {
  std::uint32_t radix = 0;
  std::uint32_t passes = 0;
  std::uint64_t keys_per_rank = 0;
  std::array<Timings, kVariants> timings;
  std::uint64_t sorts_checked = 0;
  /// Number of Allgathers, over all sorts, that used the hierarchy.
  std::uint64_t hierarchical_calls = 0;
  /// Error text of the first check that failed; empty if none failed.
  std::string wrong;
  /// Bytes of keys that left their rank in one sort, over all ranks.
  std::uint64_t moved_bytes = 0;
  /// Bytes that the exchange of one sort sent, including the padding of blocks.
  std::uint64_t carried_bytes = 0;

  const Timings& of(Variant variant) const { return timings[static_cast<std::size_t>(variant)]; }
  /// The median ratio of the overlapped to the blocking time over adjacent pairs of sorts, so that
  /// a slow drift of the machine affects both times.
  double ratio() const;
};

/// Measures one row; a collective. A wrong order of keys is reported in Row::wrong, not as an error
/// status.
tutti::Result<Row> measure(tutti::Communicator& communicator, const Options& options,
                           std::uint32_t radix, std::uint64_t keys_per_rank);

}  // namespace radix_sort
