// Which algorithm `automatic` stands for, as Communicator finds it (C7).
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// Where a question takes the ranks to be.
struct Whereabouts {
  std::string device = "ip";
  std::uint32_t hosts = 0;  ///< 0: one for each rank; with shared memory one for all
};

/// What runs for a block of so many bytes, the environment's preferences included.
Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes, const Whereabouts& where = {});

}  // namespace tutti::app
