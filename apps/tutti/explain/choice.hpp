// Finds the algorithm that `automatic` chooses, by the same rules as Communicator.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// The number and location of the ranks in a question about an algorithm.
struct Whereabouts {
  std::string device = "ip";
  /// Number of hosts; 0: one host per rank, or a single host with shared memory.
  std::uint32_t hosts = 0;
};

/// The algorithm for a block of this size, by the preferences in the environment and the built-in
/// rules.
Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes, const Whereabouts& where = {});

}  // namespace tutti::app
