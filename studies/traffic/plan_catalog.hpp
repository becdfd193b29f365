// Message plans by name: what the command line, the report and the tests ask for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

/// A plan that has a name.
struct NamedPlan {
  std::string_view name;  ///< "allgather_ring"
  /// `bytes`: of a rank's block, a rank's result, or the whole message of a broadcast.
  MessagePlan (*make)(std::uint32_t ranks, std::uint64_t bytes);
};

/// All of them.
std::span<const NamedPlan> plan_catalog();
/// Refused (invalid_argument) where the name is not in the catalogue; the message lists it.
Result<MessagePlan> plan_by_name(std::string_view name, std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::sim
