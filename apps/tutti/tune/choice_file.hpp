// Writes the results of `tutti tune` as an algorithm table for TUTTI_ALGORITHM_FILE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"

namespace tutti::app {

/// The result for one size of one collective.
struct TunedRow {
  Operation operation = Operation::allgather;
  std::uint64_t block_bytes = 0;
  /// Chosen algorithm as an algorithm table names it; "automatic" if no candidate was faster than
  /// the default.
  std::string chosen{};
  std::string usual{};  ///< name of the algorithm that runs by default
  double chosen_us = 0;
  double usual_us = 0;

  bool usual_is_best() const { return chosen == "automatic"; }
};

/// The text of the algorithm table. It begins with the ranks, hosts and device to which the table
/// applies; the rows follow, sorted by collective and size. Between two adjacent measured sizes,
/// the choice changes at their geometric mean. Above the largest measured size the default applies.
std::string choice_file(const collectives::ChoicePlace& place, const std::vector<TunedRow>& rows,
                        const std::string& title);

}  // namespace tutti::app
