// Where every rank's keys belong after a pass: from all ranks' histograms each rank computes,
// alike, how many keys go from whom to whom.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace radix_sort {

/// Keys of one source that follow each other in a rank's new block.
struct Segment {
  std::uint32_t source = 0;
  std::uint64_t keys = 0;
};

class Routes {
 public:
  /// `keys_of_rank`: how many keys each rank holds, before a pass and after it.
  Routes(std::vector<std::uint64_t> keys_of_rank, std::uint32_t me);

  /// Reads a pass's histograms: rank r's count of digit b at counts[r * radix + b].
  void set(std::span<const std::uint32_t> counts, std::uint32_t radix);

  /// Keys that go from `source` to `target`. They lie together in the source's block once that is
  /// in the order of the digits, the parts in the order of their targets.
  std::uint64_t part(std::uint32_t source, std::uint32_t target) const {
    return parts_[source * ranks() + target];
  }
  /// The largest part between two different ranks.
  std::uint64_t largest_part() const;
  /// Keys that leave their rank, all ranks together.
  std::uint64_t moved() const;
  /// This rank's new block, from its beginning.
  std::span<const Segment> segments() const { return segments_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t me() const { return me_; }

 private:
  /// Keys [position, position + keys) of all, which `source` holds.
  void add(std::uint32_t source, std::uint64_t position, std::uint64_t keys);

  std::uint32_t me_;
  std::vector<std::uint64_t> ends_;   ///< of each rank's block among all keys
  std::vector<std::uint64_t> parts_;  ///< by source and target
  std::vector<Segment> segments_;
  std::uint32_t target_ = 0;  ///< whose block the position is in
};

}  // namespace radix_sort
