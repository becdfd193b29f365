// A bootstrap among a subset of the ranks of another one. All ranks of the whole bootstrap exchange
// at the same time and equally often, each within its own subset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

class SubsetBootstrap final : public Bootstrap {
 public:
  /// `members` are ranks of `whole`. The rank of a caller that is not a member is size().
  SubsetBootstrap(Bootstrap& whole, std::vector<Rank> members)
      : whole_(whole), members_(std::move(members)) {}

  Rank rank() const override;
  std::uint32_t size() const override { return static_cast<std::uint32_t>(members_.size()); }
  std::string description() const override { return whole_.description(); }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override;

  /// Takes part in the remaining ones of `exchanges` exchanges without data, so that a rank that
  /// has failed, or is not a member, does not block the others.
  Status participate_idle(std::uint32_t exchanges, Nanoseconds timeout);

 private:
  Bootstrap& whole_;
  std::vector<Rank> members_;
  std::uint32_t exchanges_ = 0;
};

}  // namespace tutti::runtime
