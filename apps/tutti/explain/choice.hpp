// Which algorithm `automatic` stands for, as Communicator finds it (C7).
#pragma once

#include <cstdint>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// What runs for a block of so many bytes, the environment's preferences included.
Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes);

}  // namespace tutti::app
