// The commands for `ip` and `tc` that build a lab, one batch per step.
#pragma once

#include <string>

#include "lab/options.hpp"

namespace tutti::lab {

/// Makes the bridge, without IGMP queries yet.
std::string bridge_batch();
/// Makes the bridge send IGMP queries. It floods every group to every port for one more response
/// interval, so the interval is short until then.
std::string querier_batch();
/// Makes the links of all hosts and aggregators. `prefix` begins the names of their namespaces.
std::string links_batch(const LabOptions& options, const std::string& prefix);
std::string ports_up_batch(const LabOptions& options);
/// Configures a host's end of its link. `number` is the last part of its address.
std::string host_batch(const LabOptions& options, int number);
/// Shapes one end of a link.
std::string shaper(const std::string& device, const LabOptions& options);

/// The address number of an aggregator, above the numbers of all hosts.
int aggregator_number(int aggregator);

}  // namespace tutti::lab
