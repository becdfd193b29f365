// Computes the members of the new communicators when a communicator is split.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// The arguments of one rank's split: ranks of the same color form a communicator, in the order of
/// their keys, then of their ranks.
struct SplitChoice {
  std::optional<std::uint32_t> color;  ///< none: the rank joins no communicator
  std::int64_t key = 0;
  /// The ranks of the new communicator in a split by a list of ranks; empty in a split by color.
  std::vector<Rank> named{};

  /// The choice of rank `me` in a split by a list: the ranks in `named` form a communicator and are
  /// numbered in the order of the list. A rank that is not in the list joins no communicator.
  static Result<SplitChoice> of_named(std::vector<Rank> named, Rank me, std::uint32_t size);
};

/// Exchanges the choices of all ranks of `whole` and returns the members of this rank's new
/// communicator, in order; an empty list if this rank joins none. Fails if a member has named a
/// different list of ranks than this rank.
Result<std::vector<Rank>> agree_on_split(Bootstrap& whole, const SplitChoice& mine,
                                         Nanoseconds timeout);

}  // namespace tutti::runtime
