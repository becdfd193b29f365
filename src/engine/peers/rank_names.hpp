// Names of a communicator's ranks in errors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class RankNames {
 public:
  /// `hosts` has the host name of each rank; it may be empty, or have empty entries.
  explicit RankNames(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  /// The name of a rank in errors: "rank 2 (host b)".
  std::string of(Rank rank) const {
    if (index(rank) < hosts_.size() && !hosts_[index(rank)].empty()) {
      return fmt::format("rank {} ({})", index(rank), hosts_[index(rank)]);
    }
    return fmt::format("rank {}", index(rank));
  }

 private:
  std::vector<std::string> hosts_;
};

}  // namespace tutti::engine
