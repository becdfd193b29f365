// Fuzzes the decoder of rank 0's plan for the aggregators, which arrives through the bootstrap. Any
// input is refused, or decodes to a valid plan that is equal after it is encoded and decoded again.
#include "runtime/aggregator/aggregation_plan.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;           // NOLINT: no other file includes this source file
  using namespace tutti::runtime;  // NOLINT
  using fuzz::require;
  const auto plan = decode_aggregation_plan(std::as_bytes(std::span(data, size)));
  if (!plan.ok()) {
    require(plan.status().code() == Code::invalid_argument);
    return 0;
  }
  const auto again = decode_aggregation_plan(encode(*plan));
  require(again.ok() && again->fallback == plan->fallback);
  require(again->status.code() == plan->status.code());
  require(again->status.message() == plan->status.message());
  require(again->sides.size() == plan->sides.size());
  for (std::size_t i = 0; i < plan->sides.size(); ++i) {
    const AggregationPlan::Side& one = plan->sides[i];
    const AggregationPlan::Side& other = again->sides[i];
    require(engine::check(one.terms).ok());
    require(one.address == other.address && one.unique_id == other.unique_id);
    require(one.terms.segment_bytes == other.terms.segment_bytes &&
            one.terms.slots == other.terms.slots && one.terms.pulses == other.terms.pulses &&
            one.terms.group_bytes == other.terms.group_bytes);
  }
  return 0;
}
