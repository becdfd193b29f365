// The input of `ip -batch` and `tc -batch` for each step of building a lab.
#pragma once

#include <string>

#include "lab/options.hpp"

namespace tutti::lab {

/// Commands that make the bridge. It sends no IGMP queries until querier_batch() has run.
std::string bridge_batch();
/// Commands that make the bridge send IGMP queries. After the first query the bridge floods every
/// group to every port for one response interval; bridge_batch() makes this interval short.
std::string querier_batch();
/// Commands that make the links of all hosts and aggregators to the bridge. The names of the hosts'
/// and aggregators' namespaces begin with `prefix`.
std::string links_batch(const LabOptions& options, const std::string& prefix);
std::string ports_up_batch(const LabOptions& options);
/// Commands that configure the interface of a host. `number` is the last part of the host's
/// address.
std::string host_batch(const LabOptions& options, int number);
/// Commands that limit the rate at one end of a link.
std::string shaper(const std::string& device, const LabOptions& options);

/// The last part of an aggregator's address. It is larger than that of any host.
int aggregator_number(int aggregator);

}  // namespace tutti::lab
