// A bootstrap for a subset of the ranks of another bootstrap. Each exchange runs over the whole
// bootstrap and serves all subsets at once, so every rank takes part in every exchange until the
// last rank has finished.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

/// Each rank must call `finish` at the end, even after an error, because the other subsets wait for
/// every rank.
class SubsetBootstrap final : public Bootstrap {
 public:
  /// `members` are ranks of `whole`. In a process that is not a member, rank() returns size().
  SubsetBootstrap(Bootstrap& whole, std::vector<Rank> members)
      : whole_(whole), members_(std::move(members)) {}

  Rank rank() const override;
  std::uint32_t size() const override { return static_cast<std::uint32_t>(members_.size()); }
  std::string description() const override { return whole_.description(); }
  /// Fails if another member of this subset has already called `finish`.
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override;

  /// Declares that this rank needs no more exchanges. Takes part in the exchanges of the other
  /// ranks until every rank has called `finish`. Each exchange may take twice `timeout`, because
  /// another rank may wait up to `timeout` for a rank that has failed before it exchanges again.
  Status finish(Nanoseconds timeout);

 private:
  Bootstrap& whole_;
  std::vector<Rank> members_;
};

}  // namespace tutti::runtime
