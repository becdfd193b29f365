// Lists what `tutti tune` tries for a collective: every algorithm that supports this number of
// ranks, with several parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"

namespace tutti::app {

/// The candidates as entries of an algorithm table. An entry leaves the number of segments open,
/// because this number follows from the size.
std::vector<collectives::Choice> candidates(Operation operation, std::uint32_t ranks);

}  // namespace tutti::app
