// Message plans by name, for the command line, the report and the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

/// A plan with a name.
struct NamedPlan {
  std::string_view name;  ///< "allgather_ring"
  /// `bytes` is the size of a rank's block, a rank's result, or the message of a Broadcast.
  MessagePlan (*make)(std::uint32_t ranks, std::uint64_t bytes);
};

/// All named plans.
std::span<const NamedPlan> plan_catalog();
/// Error invalid_argument: the name is not in the catalogue, which the error lists.
Result<MessagePlan> plan_by_name(std::string_view name, std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::sim
