// The algorithm that `automatic` chooses, by the rules of the Communicator.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// The location of the ranks in a question.
struct Whereabouts {
  std::string device = "ip";
  std::uint32_t hosts = 0;  ///< number of hosts; 0: one per rank, with shared memory one for all
};

/// The algorithm for a block of this size, by the environment's preferences and the rules.
Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes, const Whereabouts& where = {});

}  // namespace tutti::app
