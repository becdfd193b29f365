// Storage for short-lived entries of the fabric, which are found by their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fabric/huge_pages.hpp"

namespace tutti::sim {

/// Storage that reuses freed entries; the entry that was freed last is reused first.
template <typename Entry>
class Slab {
 public:
  std::uint32_t take() {
    if (free_.empty()) {
      entries_.emplace_back();
      return static_cast<std::uint32_t>(entries_.size() - 1);
    }
    const std::uint32_t taken = free_.back();
    free_.pop_back();
    return taken;
  }
  void give_back(std::uint32_t place) { free_.push_back(place); }
  Entry& operator[](std::uint32_t place) { return entries_[place]; }
  std::size_t bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  std::vector<Entry, HugePages<Entry>> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::sim
