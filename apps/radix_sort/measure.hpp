// Both variants in turn on the same keys, timed and checked.
#pragma once

#include <tutti/communicator.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "sorter.hpp"

namespace radix_sort {

/// One variant's sorts. The same on every rank.
struct Timings {
  std::vector<std::int64_t> times_ns;  ///< of each sort, at the rank that took longest
  /// Of each phase, in each sort: the mean of the ranks.
  std::array<std::vector<std::int64_t>, kPhases> phases_ns;

  /// The Allgathers again, each at the rank that spent least in it: what they take without the
  /// wait for late ranks, and all that can be hidden.
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
  std::uint64_t hierarchical_calls = 0;  ///< of all sorts' Allgathers: those that went by leaders
  std::string wrong;                ///< what the first check that failed said; empty: none failed
  std::uint64_t moved_bytes = 0;    ///< keys that left their rank in one sort, all ranks together
  std::uint64_t carried_bytes = 0;  ///< the same with what the blocks were filled up with

  const Timings& of(Variant variant) const { return timings[static_cast<std::size_t>(variant)]; }
  /// Overlapped over blocking: the median of the pairs that ran one after the other, so that what
  /// changes slowly on the machine is in both.
  double ratio() const;
};

/// Measures one row; collective. A wrong order is no failure here: Row::wrong says it.
tutti::Result<Row> measure(tutti::Communicator& communicator, const Options& options,
                           std::uint32_t radix, std::uint64_t keys_per_rank);

}  // namespace radix_sort
