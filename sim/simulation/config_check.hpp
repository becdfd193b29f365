// Checks that the parts of a simulation's configuration fit together and exist in its topology.
#pragma once

#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// Checks a configuration, whose topology must be set. Error (invalid_argument): names what does
/// not fit.
Status check(const WorldConfig& config);

}  // namespace tutti::simulation
