// The ranks that have announced that they close their communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "base/circular.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class ClosedPeers {
 public:
  explicit ClosedPeers(std::uint32_t size) : closed_(size) {}

  /// Adds a rank; `next_epoch` is the epoch of the first collective that it has not begun.
  void add(Rank rank, std::uint32_t next_epoch) {
    if (index(rank) >= closed_.size() || closed_[index(rank)]) return;
    closed_[index(rank)] = true;
    ++count_;
    if (first_ != kNoRank && !circular_before(next_epoch, next_epoch_)) return;
    first_ = rank;
    next_epoch_ = next_epoch;
  }
  bool contains(Rank rank) const { return index(rank) < closed_.size() && closed_[index(rank)]; }
  std::uint32_t count() const { return count_; }
  /// A rank that closed its communicator before it began the collective `epoch`; kNoRank: none.
  Rank before(std::uint32_t epoch) const {
    return first_ != kNoRank && !circular_before(epoch, next_epoch_) ? first_ : kNoRank;
  }

 private:
  std::vector<bool> closed_;  ///< by rank
  std::uint32_t count_ = 0;
  /// The closed rank that has begun the fewest collectives. `next_epoch_` is the epoch of the first
  /// collective that it has not begun.
  Rank first_ = kNoRank;
  std::uint32_t next_epoch_ = 0;
};

}  // namespace tutti::engine
