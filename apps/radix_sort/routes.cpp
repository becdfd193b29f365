#include "routes.hpp"

#include <algorithm>
#include <numeric>

namespace radix_sort {

Routes::Routes(std::vector<std::uint64_t> keys_of_rank, std::uint32_t me)
    : me_(me), ends_(std::move(keys_of_rank)), parts_(ends_.size() * ends_.size()) {
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

// A pass orders keys by digit, then by source rank, then by position on that rank. The sort is
// therefore stable: keys with equal digits keep the order of the earlier passes.
void Routes::set(std::span<const std::uint32_t> counts, std::uint32_t radix) {
  std::fill(parts_.begin(), parts_.end(), 0);
  key_runs_.clear();
  target_ = 0;
  std::uint64_t position = 0;
  for (std::uint32_t digit = 0; digit < radix; ++digit) {
    for (std::uint32_t source = 0; source < ranks(); ++source) {
      const std::uint64_t keys = counts[static_cast<std::size_t>(source) * radix + digit];
      if (keys == 0) continue;
      add(source, position, keys);
      position += keys;
    }
  }
}

void Routes::add(std::uint32_t source, std::uint64_t position, std::uint64_t keys) {
  while (keys > 0) {
    while (position >= ends_[target_]) ++target_;
    const std::uint64_t taken = std::min(keys, ends_[target_] - position);
    parts_[source * ranks() + target_] += taken;
    if (target_ == me_) {
      if (!key_runs_.empty() && key_runs_.back().source == source) {
        key_runs_.back().keys += taken;
      } else {
        key_runs_.push_back({source, taken});
      }
    }
    position += taken;
    keys -= taken;
  }
}

std::uint64_t Routes::largest_part() const {
  std::uint64_t largest = 0;
  for (std::uint32_t source = 0; source < ranks(); ++source) {
    for (std::uint32_t target = 0; target < ranks(); ++target) {
      if (source != target) largest = std::max(largest, part(source, target));
    }
  }
  return largest;
}

std::uint64_t Routes::moved() const {
  std::uint64_t keys = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) keys -= part(rank, rank);
  return std::accumulate(parts_.begin(), parts_.end(), keys);
}

}  // namespace radix_sort
