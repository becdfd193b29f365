// Finds the algorithm that a communicator would choose for a collective.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "collectives/choice.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// The device and the hosts on which the ranks would run.
struct Whereabouts {
  std::string device = "ip";
  /// Number of hosts; 0: one host for each rank, or a single host if the device is `host`.
  std::uint32_t hosts = 0;
  bool multicast = true;  ///< whether the network passes multicast
};

/// The algorithm for blocks of this size, by the rules in the environment variables and the
/// built-in rules.
Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes, const Whereabouts& where = {});

}  // namespace tutti::app
