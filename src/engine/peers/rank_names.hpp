// For each rank of a communicator: its name in error texts, and its rank in the job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class RankNames {
 public:
  /// `hosts` has the host name of each rank; it may be empty or have empty entries. `members` has
  /// the job rank of each rank; it is empty if every rank has the same number in the communicator
  /// and in the job.
  RankNames(std::vector<std::string> hosts = {},  // NOLINT: implicit by design
            std::vector<Rank> members = {})
      : hosts_(std::move(hosts)), members_(std::move(members)) {}

  /// The name of a rank in errors: "rank 2 (host b)".
  std::string of(Rank rank) const {
    if (index(rank) < hosts_.size() && !hosts_[index(rank)].empty()) {
      return fmt::format("rank {} ({})", index(rank), hosts_[index(rank)]);
    }
    return fmt::format("rank {}", index(rank));
  }

  /// The name, in error texts, of the rank that has the number `rank` in the job. This rank need
  /// not be in the communicator.
  std::string of_job(Rank rank) const {
    return members_.empty() ? of(rank) : fmt::format("rank {} of the job", index(rank));
  }

  /// Converts ranks of the communicator to ranks of the job, for Status::ranks.
  std::vector<Rank> in_job(std::vector<Rank> ranks) const {
    for (Rank& rank : ranks) {
      if (index(rank) < members_.size()) rank = members_[index(rank)];
    }
    return ranks;
  }

 private:
  std::vector<std::string> hosts_;
  std::vector<Rank> members_;
};

}  // namespace tutti::engine
