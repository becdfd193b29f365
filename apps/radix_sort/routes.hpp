// Computes the targets of all keys in a pass. From the histograms of all ranks, each rank derives
// how many keys every source sends to every target.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace radix_sort {

/// A run of consecutive keys from one source in a rank's new block.
struct KeyRun {
  std::uint32_t source = 0;
  std::uint64_t keys = 0;
};

class Routes {
 public:
  /// `keys_of_rank` holds the number of keys on each rank, which is the same before and after every
  /// pass.
  Routes(std::vector<std::uint64_t> keys_of_rank, std::uint32_t me);

  /// Reads the histograms of a pass, in which counts[r * radix + b] is rank r's number of keys with
  /// digit b.
  void set(std::span<const std::uint32_t> counts, std::uint32_t radix);

  /// The number of keys that `source` sends to `target`. In the source's block in digit order these
  /// keys are adjacent, and the targets follow in rank order.
  std::uint64_t part(std::uint32_t source, std::uint32_t target) const {
    return parts_[source * ranks() + target];
  }
  /// The number of keys in the largest part that one rank sends to another.
  std::uint64_t largest_part() const;
  /// The number of keys that leave their rank, over all ranks.
  std::uint64_t moved() const;
  /// The runs of keys in this rank's new block, in order.
  std::span<const KeyRun> key_runs() const { return key_runs_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t me() const { return me_; }

 private:
  /// Adds the keys [position, position + keys) of the global order, all from `source`, to the
  /// routes.
  void add(std::uint32_t source, std::uint64_t position, std::uint64_t keys);

  std::uint32_t me_;
  std::vector<std::uint64_t> ends_;   ///< end of each rank's block in the global order of keys
  std::vector<std::uint64_t> parts_;  ///< number of keys, indexed by source and target
  std::vector<KeyRun> key_runs_;
  std::uint32_t target_ = 0;  ///< rank whose block contains the current position
};

}  // namespace radix_sort
