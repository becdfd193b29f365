// Reductions by an aggregator, as the ranks of a simulated communicator call them. The aggregator
// is the last rank of the communicator and calls no collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/aggregate/window_plan.hpp"
#include "engine/core/operation.hpp"
#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::simulation {

/// The configuration of an aggregator window with `slots` window slots for each rank and with
/// segments of the shortest permitted length.
engine::WindowConfig aggregator_window(std::uint32_t slots);

/// Whether a rank is the aggregator of its communicator.
inline bool is_aggregator(const CommunicatorSpec& spec, Rank rank) {
  return spec.aggregator && index(rank) + 1 == spec.hosts.size();
}
/// The number of ranks that call the collectives of a communicator: all except an aggregator.
inline std::uint32_t calling_ranks(const CommunicatorSpec& spec) {
  return static_cast<std::uint32_t>(spec.hosts.size()) - (spec.aggregator ? 1 : 0);
}
/// Checks the window and the collectives of a communicator with an aggregator. Error
/// (invalid_argument): names what does not fit.
Status check_aggregated(const CommunicatorSpec& spec);

/// Makes the engine's operations for one reduction at one rank, as tutti::Communicator does in a
/// job. The first one sends this rank's contribution to the aggregator. In an Allreduce, Broadcasts
/// of the result follow, each of at most WindowConfig::group_bytes. A reduction without elements
/// has no operations.
std::vector<std::unique_ptr<engine::Operation>> aggregated_operations(
    const CollectiveSpec& what, const CommunicatorSpec& spec, std::span<const std::byte> own,
    std::span<std::byte> result);

/// The number of multicast chunks of `chunk_bytes` that each calling rank receives in a call.
std::uint64_t aggregated_chunks(const CollectiveSpec& what, const CommunicatorSpec& spec,
                                std::uint64_t chunk_bytes);

}  // namespace tutti::simulation
