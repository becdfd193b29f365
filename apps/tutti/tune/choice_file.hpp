// What `tutti tune` found, as TUTTI_ALGORITHM_FILE reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"

namespace tutti::app {

/// One size of one collective.
struct TunedRow {
  Operation operation = Operation::allgather;
  std::uint64_t block_bytes = 0;
  std::string chosen{};  ///< as it stands in a table; "automatic": nothing beat what is usual
  std::string usual{};   ///< what that is
  double chosen_us = 0;
  double usual_us = 0;

  bool usual_is_best() const { return chosen == "automatic"; }
};

/// The table: what is for `place`, and its rows, by collective and from the smallest size up.
/// Between two measured sizes it changes half-way, in powers; beyond the largest it chooses
/// nothing.
std::string choice_file(const collectives::ChoicePlace& place, const std::vector<TunedRow>& rows,
                        const std::string& title);

}  // namespace tutti::app
