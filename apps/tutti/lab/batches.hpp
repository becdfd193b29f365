// The commands for `ip` and `tc` that build a lab, with one batch for each step.
#pragma once

#include <string>

#include "lab/options.hpp"

namespace tutti::lab {

/// Commands that make the bridge, which does not yet send IGMP queries.
std::string bridge_batch();
/// Commands that make the bridge send IGMP queries. The bridge then floods every group to every
/// port for one response interval, so the interval is short until that time has passed.
std::string querier_batch();
/// Commands that make the links of all hosts and aggregators. `prefix` begins the names of their
/// namespaces.
std::string links_batch(const LabOptions& options, const std::string& prefix);
std::string ports_up_batch(const LabOptions& options);
/// Commands that configure a host's end of its link. `number` is the last part of the host's
/// address.
std::string host_batch(const LabOptions& options, int number);
/// Commands that limit the rate at one end of a link.
std::string shaper(const std::string& device, const LabOptions& options);

/// The last part of an aggregator's address, above those of all hosts.
int aggregator_number(int aggregator);

}  // namespace tutti::lab
