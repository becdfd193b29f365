// Creates a communicator over a bootstrap, for Tutti's own tools and tests; the public functions
// make their bootstraps themselves.
#pragma once

#include <cstdint>

#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/communicator.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Creates a communicator; collective. `bootstrap` is used during this function only. `parent` is
/// the communicator of which the new one is a duplicate, or null. `first_epoch` is the number of
/// the first collective and must be the same at all ranks.
Result<Communicator> create_communicator(Bootstrap& bootstrap, const CommunicatorOptions& options,
                                         const Communicator* parent = nullptr,
                                         std::uint32_t first_epoch = 1);

}  // namespace tutti::runtime
