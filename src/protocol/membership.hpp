// The membership check: a multicast group is used only once every rank has received the probe of
// every other rank on every subgroup. A switch begins to forward some time after a host joins; a
// probe proves that it does, whereas a fixed delay would be a guess.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bits.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

class Membership {
 public:
  Membership(Rank me, std::uint32_t size, std::uint32_t subgroups)
      : me_(me), size_(size), subgroups_(subgroups), heard_(std::size_t{size} * subgroups) {}

  /// Records a probe; values out of range are ignored.
  void on_probe(Rank source, std::uint32_t subgroup) {
    if (index(source) >= size_ || subgroup >= subgroups_ || source == me_) return;
    if (heard_.set(index(source) * subgroups_ + subgroup)) ++count_;
  }
  bool complete() const { return count_ == (size_ - 1) * subgroups_; }
  /// The ranks whose probe has not arrived on every subgroup.
  std::vector<Rank> missing() const {
    std::vector<Rank> ranks;
    for (std::uint32_t r = 0; r < size_; ++r) {
      const Range own{r * subgroups_, (r + 1) * subgroups_};
      if (rank_of(r) != me_ && heard_.count(own) < subgroups_) ranks.push_back(rank_of(r));
    }
    return ranks;
  }

 private:
  Rank me_;
  std::uint32_t size_;
  std::uint32_t subgroups_;
  std::uint32_t count_ = 0;
  Bitmap heard_;
};

}  // namespace tutti::protocol
