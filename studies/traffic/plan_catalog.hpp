// A catalogue of message plans by name, for the command line, the report and the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "studies/traffic/message_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::sim {

/// A message plan with its name.
struct NamedPlan {
  std::string_view name;  ///< name, such as "allgather_ring"
  /// Builds the plan. `bytes` is the size of a rank's block (Allgather), of a rank's result
  /// (Reduce-Scatter) or of the message (Broadcast).
  MessagePlan (*make)(std::uint32_t ranks, std::uint64_t bytes);
};

/// All plans of the catalogue.
std::span<const NamedPlan> plan_catalog();
/// Builds a plan by name. Error (invalid_argument): the name is not in the catalogue, which the
/// error lists.
Result<MessagePlan> plan_by_name(std::string_view name, std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::sim
