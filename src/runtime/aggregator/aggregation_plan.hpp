// The aggregation plan, which is the same for all ranks of a job. It lists the side communicators,
// and the aggregator windows on which rank 0 has agreed with the aggregators.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crypto/secret.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// A job may use at most this many aggregators.
inline constexpr std::uint32_t kMaxAggregators = 64;

/// The plan in the form that ranks exchange over the bootstrap. Rank 0 first sends it, encrypted,
/// with all side communicators; later every rank sends a plan that contains only its own status.
struct AggregationPlan {
  struct Side {
    std::string address;
    std::string unique_id;
    engine::WindowConfig terms;
  };

  Status status;  ///< ok if aggregators are used; otherwise the reason why not
  bool fallback = false;
  std::vector<Side> sides;
};

Bytes encode(const AggregationPlan& plan);
Result<AggregationPlan> decode_aggregation_plan(std::span<const std::byte> bytes);

/// Encrypts a plan for the ranks that have `key`. A key must not be used for a second plan.
Result<Bytes> seal(const AggregationPlan& plan, const crypto::Secret& key);
Result<AggregationPlan> unseal_aggregation_plan(std::span<const std::byte> bytes,
                                                const crypto::Secret& key);

/// Asks every aggregator in the options to join the job. Only rank 0 calls this function. The
/// bootstrap stores of the side communicators then run in the process of rank 0.
AggregationPlan make_aggregation_plan(const CommunicatorOptions& options, std::uint32_t ranks);

}  // namespace tutti::runtime
