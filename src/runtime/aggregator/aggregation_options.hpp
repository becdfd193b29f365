// The options of a communicator that concern aggregators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::runtime {

/// Which aggregators a job uses; only rank 0's count.
struct AggregationOptions {
  std::vector<std::string> aggregators;  ///< "host:port" each
  bool fallback = false;                 ///< go on without aggregators where one cannot be used
  std::string key_file;                  ///< empty: as find_service_key says; needed at rank 0 only

  /// The list that the environment gives where the options give none: TUTTI_AGGREGATORS, separated
  /// by commas; with TUTTI_AGGREGATOR_FALLBACK=1 as `fallback`.
  static AggregationOptions with_environment(std::vector<std::string> aggregators, bool fallback);
  /// The addresses of a list that is separated by commas.
  static std::vector<std::string> list_of(std::string_view text);
};

}  // namespace tutti::runtime
