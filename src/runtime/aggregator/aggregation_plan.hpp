// The aggregation plan: what rank 0 has agreed with the aggregators, for all ranks of a job.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/aggregate/window_plan.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Largest number of aggregators of a job.
inline constexpr std::uint32_t kMaxAggregators = 64;

/// The plan as sent over the bootstrap: first by rank 0 with its side communicators, then by every
/// rank with its own result.
struct AggregationPlan {
  struct Side {
    std::string address;
    std::string unique_id;
    engine::WindowConfig terms;
  };

  Status status;  ///< reason why no aggregators are used; ok: none
  bool fallback = false;
  std::vector<Side> sides;
};

Bytes encode(const AggregationPlan& plan);
Result<AggregationPlan> decode_aggregation_plan(std::span<const std::byte> bytes);

/// Asks every aggregator that the options name to join the job. Called by rank 0, whose process
/// then holds the bootstraps.
AggregationPlan make_aggregation_plan(const CommunicatorOptions& options, std::uint32_t ranks,
                                      std::uint16_t number);

}  // namespace tutti::runtime
