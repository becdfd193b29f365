// A bootstrap among some ranks of another one. All ranks of the other one exchange together, each
// within its part, as often as was agreed.
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
  /// `members` of `whole`, by their rank in it; the caller's rank is one of them, or there is none.
  SubsetBootstrap(Bootstrap& whole, std::vector<Rank> members)
      : whole_(whole), members_(std::move(members)) {}

  Rank rank() const override;
  std::uint32_t size() const override { return static_cast<std::uint32_t>(members_.size()); }
  std::string description() const override { return whole_.description(); }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override;

  /// Takes part, with nothing to say, in what is left of `exchanges`: who failed on the way, or
  /// has no part, must not keep the others waiting.
  Status participate_idle(std::uint32_t exchanges, Nanoseconds timeout);

 private:
  Bootstrap& whole_;
  std::vector<Rank> members_;
  std::uint32_t exchanges_ = 0;
};

}  // namespace tutti::runtime
