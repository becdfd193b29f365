// What a lab tells `ip` and `tc`, a batch for each step.
#pragma once

#include <string>

#include "lab/options.hpp"

namespace tutti::lab {

/// The bridge alone, which does not ask for members yet.
std::string bridge_batch();
/// Makes the bridge ask for members. For one response interval, as it was set by an earlier
/// command, it goes on flooding every group to every port; so the interval is short now and useful
/// after.
std::string querier_batch();
/// The links of all hosts and aggregators; `prefix` begins their namespaces' names.
std::string links_batch(const LabOptions& options, const std::string& prefix);
std::string ports_up_batch(const LabOptions& options);
/// What a host does with its end; `number` is the last part of its address.
std::string host_batch(const LabOptions& options, int number);
/// The shaper of one end of a link.
std::string shaper(const std::string& device, const LabOptions& options);

/// The number of an aggregator's address, above those of all hosts.
int aggregator_number(int aggregator);

}  // namespace tutti::lab
