// The candidates of `tutti tune`: every algorithm of a collective that serves these ranks, with its
// parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"

namespace tutti::app {

/// The candidates as an algorithm table writes them. The number of segments follows from the size.
std::vector<collectives::Choice> candidates(Operation operation, std::uint32_t ranks);

}  // namespace tutti::app
