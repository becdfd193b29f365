// What came for collectives that this rank has not begun, by collective: a root may be thousands of
// short Broadcasts ahead of a rank that computes. Measured, 8 bytes back to back to 1 rank: 665 us
// each where every call went through all that waited, 2 us by collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/circular.hpp"

namespace tutti::engine {

/// Epochs wrap; those kept at one time lie less than 2^31 apart.
template <typename Item>
class ByEpoch {
 public:
  void keep(std::uint32_t epoch, Item item) {
    items_[epoch].push_back(std::move(item));
    ++size_;
  }
  /// Moves out what came for one collective, in order of arrival.
  std::vector<Item> take(std::uint32_t epoch) {
    const auto found = items_.find(epoch);
    if (found == items_.end()) return {};
    std::vector<Item> taken = std::move(found->second);
    items_.erase(found);
    size_ -= taken.size();
    return taken;
  }
  /// Moves out what came for collectives before `epoch`.
  std::vector<Item> take_before(std::uint32_t epoch) {
    std::vector<Item> taken;
    while (!items_.empty() && circular_before(items_.begin()->first, epoch)) {
      for (Item& item : items_.begin()->second) taken.push_back(std::move(item));
      items_.erase(items_.begin());
    }
    size_ -= taken.size();
    return taken;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Before {
    bool operator()(std::uint32_t a, std::uint32_t b) const { return circular_before(a, b); }
  };

  std::map<std::uint32_t, std::vector<Item>, Before> items_;
  std::size_t size_ = 0;
};

}  // namespace tutti::engine
