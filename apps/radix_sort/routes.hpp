// The targets of all keys in a pass: from the histograms of all ranks, each rank computes how many
// keys every source sends to every target.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace radix_sort {

/// Consecutive keys of one source in a rank's new block.
struct Segment {
  std::uint32_t source = 0;
  std::uint64_t keys = 0;
};

class Routes {
 public:
  /// `keys_of_rank` is the number of keys on each rank, before and after every pass.
  Routes(std::vector<std::uint64_t> keys_of_rank, std::uint32_t me);

  /// Reads the histograms of a pass: rank r's count of digit b is counts[r * radix + b].
  void set(std::span<const std::uint32_t> counts, std::uint32_t radix);

  /// The number of keys from `source` to `target`. They are adjacent in the source's block once it
  /// is in digit order, in the order of their targets.
  std::uint64_t part(std::uint32_t source, std::uint32_t target) const {
    return parts_[source * ranks() + target];
  }
  /// The largest part between two different ranks, in keys.
  std::uint64_t largest_part() const;
  /// The number of keys that leave their rank, over all ranks.
  std::uint64_t moved() const;
  /// The runs of this rank's new block, in order.
  std::span<const Segment> segments() const { return segments_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t me() const { return me_; }

 private:
  /// Adds to the routes the keys [position, position + keys) of the global order, from `source`.
  void add(std::uint32_t source, std::uint64_t position, std::uint64_t keys);

  std::uint32_t me_;
  std::vector<std::uint64_t> ends_;   ///< end of each rank's block in the global order
  std::vector<std::uint64_t> parts_;  ///< number of keys, by source and target
  std::vector<Segment> segments_;
  std::uint32_t target_ = 0;  ///< rank whose block contains the position
};

}  // namespace radix_sort
