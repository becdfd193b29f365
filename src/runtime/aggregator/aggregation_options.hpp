// The options of a communicator that concern aggregators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/options.hpp"

namespace tutti::runtime {

/// The aggregators that a job uses. Only the options of rank 0 count.
struct AggregationOptions {
  std::vector<std::string> aggregators;  ///< addresses, "host:port" each
  bool fallback = false;                 ///< true: go on without aggregators if one cannot be used
  /// File of the service key; empty: as find_service_key says; only rank 0 needs it.
  std::string key_file;

  /// Adds what the environment gives if the options give nothing: TUTTI_AGGREGATORS, a list
  /// separated by commas, and TUTTI_AGGREGATOR_FALLBACK=1 as `fallback`.
  static AggregationOptions with_environment(std::vector<std::string> aggregators, bool fallback);
  /// Splits a list of addresses that commas separate.
  static std::vector<std::string> list_of(std::string_view text);
};

/// The options of the side communicator of a job and an aggregator: of `job`, the options that a
/// JoinRequest carries and this process's interface and device.
CommunicatorOptions side_options(const CommunicatorOptions& job);

}  // namespace tutti::runtime
