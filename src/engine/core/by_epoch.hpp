// Stores, by epoch, the items that arrive for collectives that this rank has not begun. A root may
// be thousands of short Broadcasts ahead of this rank, so removing the items of one collective must
// not visit the items of the other collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/circular.hpp"

namespace tutti::engine {

/// Items by epoch. Epochs wrap at 2^32, so all stored epochs must lie less than 2^31 apart.
template <typename Item>
class ByEpoch {
 public:
  void keep(std::uint32_t epoch, Item item) {
    items_[epoch].push_back(std::move(item));
    ++size_;
  }
  /// Removes the items of one collective and returns them in order of arrival.
  std::vector<Item> take(std::uint32_t epoch) {
    const auto found = items_.find(epoch);
    if (found == items_.end()) return {};
    std::vector<Item> taken = std::move(found->second);
    items_.erase(found);
    size_ -= taken.size();
    return taken;
  }
  /// Removes and returns the items of all collectives before `epoch`.
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
