// What `tutti tune` tries: every algorithm of a collective that serves the ranks, and what those
// can be tuned by.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"

namespace tutti::app {

/// Each as it can stand in a table. Segments are left to the size.
std::vector<collectives::Choice> candidates(Operation operation, std::uint32_t ranks);

}  // namespace tutti::app
