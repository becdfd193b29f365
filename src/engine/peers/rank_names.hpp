// For each rank of a communicator: its name in error texts, and its rank in the job.
#pragma once

#include <cstdint>
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
            std::vector<Rank> members = {}, std::uint32_t job_size = 0)
      : hosts_(std::move(hosts)), members_(std::move(members)), job_size_(job_size) {}

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

  /// The number of ranks of the job, or UINT32_MAX if it is not known. A communicator of `size`
  /// ranks without a table of members is taken for the whole job.
  std::uint32_t job_size(std::uint32_t size) const {
    if (job_size_ > 0) return job_size_;
    return members_.empty() ? size : UINT32_MAX;
  }

 private:
  std::vector<std::string> hosts_;
  std::vector<Rank> members_;
  std::uint32_t job_size_;  ///< 0: not known
};

}  // namespace tutti::engine
