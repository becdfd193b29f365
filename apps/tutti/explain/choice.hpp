// Which algorithm `automatic` stands for.
#pragma once

#include <cstdint>
#include <string>

#include "bench/exercise.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct Choice {
  Algorithm algorithm = Algorithm::multicast;
  std::string reason;
};

/// The first row of the table of choices that matches. `send_bytes`: the message of a broadcast, a
/// rank's block of an allgather.
Choice choose(Operation operation, std::uint32_t ranks, std::uint64_t send_bytes);

}  // namespace tutti::app
