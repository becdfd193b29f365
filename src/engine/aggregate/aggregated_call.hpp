// One rank's part in one reduction by an aggregator, as operations of the communicator that the
// rank shares with the aggregator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/aggregate/contribute_operation.hpp"
#include "engine/core/operation.hpp"

namespace tutti::engine {

/// The operations of a rank, in the order in which it must submit them. The first is the
/// contribution. In an Allreduce, one Broadcast by the aggregator follows for each group of
/// segments. `ranks` is the number of ranks without the aggregator. `result` gets the results and
/// must stay valid until all operations are complete. `call` must be valid according to `check` and
/// have at least one element.
std::vector<std::unique_ptr<Operation>> aggregated_call(
    const InNetworkCall& call, std::uint32_t ranks, const WindowConfig& terms,
    InNetworkBuffers buffers, std::span<std::byte> result, const reduction::Reducer& reducer);

}  // namespace tutti::engine
