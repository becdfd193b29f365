// The options of a communicator that concern aggregators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The given options, completed by the environment: TUTTI_AGGREGATORS is used if `aggregators` is
/// empty, and TUTTI_AGGREGATOR_FALLBACK=1 sets `aggregator_fallback`. Fails if
/// TUTTI_AGGREGATOR_FALLBACK has a value other than 0 or 1.
Result<CommunicatorOptions> with_aggregators_of_environment(CommunicatorOptions options);

/// Splits a list of addresses at its commas.
std::vector<std::string> list_of_aggregators(std::string_view text);

/// The options of a side communicator that connects a job with an aggregator: UD multicast over the
/// ip device, and those options of `job` that apply to a side communicator.
CommunicatorOptions side_options(const CommunicatorOptions& job);

}  // namespace tutti::runtime
