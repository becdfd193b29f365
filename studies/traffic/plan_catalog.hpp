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
/// Builds a plan by name: one of the catalogue, or "COLLECTIVE/ALGORITHM" for an algorithm of the
/// library (collectives/registry.hpp). Errors: invalid_argument (unknown name; the error lists the
/// known ones), and those of `collectives::build_all` and `traffic::plan_of`.
Result<MessagePlan> plan_by_name(std::string_view name, std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::sim
