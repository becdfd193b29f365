#include "runtime/aggregator/aggregation_options.hpp"

#include <algorithm>

#include "runtime/communicator/option_lookup.hpp"

namespace tutti::runtime {

Result<CommunicatorOptions> with_aggregators_of_environment(CommunicatorOptions options) {
  const auto fallback = flag_of_environment("TUTTI_AGGREGATOR_FALLBACK");
  if (!fallback) return fallback.status();
  options.aggregator_fallback = options.aggregator_fallback || *fallback;
  if (options.aggregators.empty())
    options.aggregators = list_of_aggregators(variable_or_empty("TUTTI_AGGREGATORS"));
  return options;
}

std::vector<std::string> list_of_aggregators(std::string_view text) {
  std::vector<std::string> addresses;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (!one.empty()) addresses.emplace_back(one);
  }
  return addresses;
}

CommunicatorOptions side_options(const CommunicatorOptions& job) {
  CommunicatorOptions side;
  side.device_name = "ip";  // an aggregator is reached over the network, even on the same host
  side.multicast = "ud";
  side.hierarchy = "flat";  // TUTTI_HIERARCHY may differ between the job and the aggregator
  side.multicast_hops = job.multicast_hops;
  side.traffic_class = job.traffic_class;
  side.require_multicast = true;  // an aggregator sends its results by multicast
  side.chains = 1;
  side.interface = job.interface;
  side.device = job.device;
  side.ipv6 = job.ipv6;
  side.authenticate = job.authenticate;
  side.peer_timeout = job.peer_timeout;
  side.create_timeout = job.create_timeout;
  return side;
}

}  // namespace tutti::runtime
