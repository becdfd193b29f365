// Checks that the parts of a communicator's configuration fit together.
#pragma once

#include <cstdint>

#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// Checks the configuration of communicator `number`. Error (invalid_argument): names what does not
/// fit.
Status check(const CommunicatorSpec& spec, std::uint32_t number);

}  // namespace tutti::simulation
