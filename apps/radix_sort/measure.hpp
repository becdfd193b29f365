// Times the blocking and the overlapped variant of the sort, alternately on the same keys, and
// checks every result.
#pragma once

#include <tutti/communicator.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "sorter.hpp"

namespace radix_sort {

/// The times of all sorts of one variant; every rank has the same values.
struct Timings {
  std::vector<std::int64_t> times_ns;  ///< duration of each sort on its slowest rank, in ns
  /// Duration of each phase in each sort, averaged over the ranks, in ns.
  std::array<std::vector<std::int64_t>, kPhases> phases_ns;

  /// The least Allgather time of each sort, in ns: the sum over its passes of the shortest time
  /// that the Allgather took on any rank. A rank with the shortest time waited for no late rank, so
  /// overlap can hide all of this time.
  std::vector<std::int64_t> least_allgather_ns;

  std::int64_t median_ns() const;
  std::int64_t median_least_allgather_ns() const;
  std::int64_t median_ns(Phase phase) const;
};

/// The results for one radix and one number of keys per rank.
struct Row {
  std::uint32_t radix = 0;
  std::uint32_t passes = 0;
  std::uint64_t keys_per_rank = 0;
  std::array<Timings, kVariants> timings;
  std::uint64_t sorts_checked = 0;
  /// Number of collectives, over all sorts, that this rank ran hierarchically.
  std::uint64_t hierarchical_calls = 0;
  /// Error text of the first check that failed; empty if none failed.
  std::string wrong;
  /// Bytes of the keys that had to move to another rank in one sort, over all ranks.
  std::uint64_t moved_bytes = 0;
  /// Bytes that all ranks sent in the exchanges of one sort, including the padding of blocks.
  std::uint64_t carried_bytes = 0;

  const Timings& of(Variant variant) const { return timings[static_cast<std::size_t>(variant)]; }
  /// The time of an overlapped sort divided by that of the adjacent blocking sort: the median over
  /// all pairs. The sorts are adjacent, so that a slow drift of the machine affects both times.
  double ratio() const;
};

/// Measures one row; every rank must call it. If a sort gave wrong keys, the status is ok and
/// Row::wrong has the error text.
tutti::Result<Row> measure(tutti::Communicator& communicator, const Options& options,
                           std::uint32_t radix, std::uint64_t keys_per_rank);

}  // namespace radix_sort
