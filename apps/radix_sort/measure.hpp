// Runs both variants in turn on the same keys, times and checks them.
#pragma once

#include <tutti/communicator.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "sorter.hpp"

namespace radix_sort {

/// The sorts of one variant; the same on every rank.
struct Timings {
  std::vector<std::int64_t> times_ns;  ///< duration of each sort on its slowest rank
  /// Duration of each phase in each sort, averaged over the ranks.
  std::array<std::vector<std::int64_t>, kPhases> phases_ns;

  /// Duration of the Allgathers on the rank that spent least time in them. It excludes the wait for
  /// late ranks, and is the time that overlap can hide.
  std::vector<std::int64_t> least_allgather_ns;

  std::int64_t median_ns() const;
  std::int64_t median_least_allgather_ns() const;
  std::int64_t median_ns(Phase phase) const;
};

/// One radix and number of keys.
struct Row {
  std::uint32_t radix = 0;
  std::uint32_t passes = 0;
  std::uint64_t keys_per_rank = 0;
  std::array<Timings, kVariants> timings;
  std::uint64_t sorts_checked = 0;
  std::uint64_t hierarchical_calls = 0;  ///< Allgathers of all sorts that used the hierarchy
  std::string wrong;                     ///< text of the first check that failed; empty if none
  std::uint64_t moved_bytes = 0;    ///< key bytes that left their rank in one sort, over all ranks
  std::uint64_t carried_bytes = 0;  ///< bytes sent in one sort, including the padding of blocks

  const Timings& of(Variant variant) const { return timings[static_cast<std::size_t>(variant)]; }
  /// The median ratio of overlapped to blocking over adjacent pairs, so that slow drift of the
  /// machine affects both.
  double ratio() const;
};

/// Measures one row; collective. A wrong order is reported in Row::wrong, not as a failure.
tutti::Result<Row> measure(tutti::Communicator& communicator, const Options& options,
                           std::uint32_t radix, std::uint64_t keys_per_rank);

}  // namespace radix_sort
