// Computes which rank each key moves to in a pass. Every rank derives this from the histograms of
// all ranks, so that no further messages are needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace radix_sort {

/// Consecutive keys in a rank's new block that come from one source rank.
struct KeyRun {
  std::uint32_t source = 0;
  std::uint64_t keys = 0;
};

class Routes {
 public:
  /// `keys_of_rank` holds the number of keys on each rank, which is the same after every pass. `me`
  /// is this rank.
  Routes(std::vector<std::uint64_t> keys_of_rank, std::uint32_t me);

  /// Computes the routes of a pass from its histograms; counts[r * radix + b] is the number of keys
  /// on rank r that have digit b.
  void set(std::span<const std::uint32_t> counts, std::uint32_t radix);

  /// The number of keys that rank `source` sends to rank `target`. After a rank has ordered its
  /// keys by digit, the keys for one target are adjacent, and the targets follow in rank order.
  std::uint64_t part(std::uint32_t source, std::uint32_t target) const {
    return parts_[source * ranks() + target];
  }
  /// The largest number of keys that any rank sends to any other rank.
  std::uint64_t largest_part() const;
  /// The number of keys that move to another rank, over all ranks.
  std::uint64_t moved() const;
  /// The runs that make up this rank's new block, from its first key to its last.
  std::span<const KeyRun> key_runs() const { return key_runs_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t me() const { return me_; }

 private:
  /// Routes the next `keys` keys of rank `source`. Their positions in the global order begin at
  /// `position`.
  void add(std::uint32_t source, std::uint64_t position, std::uint64_t keys);

  std::uint32_t me_;
  /// For each rank, the index just past the end of its block in the global order of all keys.
  std::vector<std::uint64_t> ends_;
  /// Number of keys that a source sends to a target, indexed by source and target.
  std::vector<std::uint64_t> parts_;
  std::vector<KeyRun> key_runs_;
  std::uint32_t target_ = 0;  ///< rank to which add() routed the latest key
};

}  // namespace radix_sort
