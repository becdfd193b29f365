// Small computations that tree and exchange algorithms share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "schedule/builder.hpp"
#include "tutti/units.hpp"

namespace tutti::collectives {

/// True if value = base^n for some n.
constexpr bool is_power_of(std::uint32_t value, std::uint32_t base) {
  while (value % base == 0 && value > 1) value /= base;
  return value == 1;
}

/// Returns the smallest n for which base^n >= value.
constexpr std::uint32_t ceil_log(std::uint32_t value, std::uint32_t base) {
  std::uint32_t rounds = 0;
  for (std::uint64_t reach = 1; reach < value; reach *= base) ++rounds;
  return rounds;
}

/// Numbers the ranks cyclically, beginning with 0 at the root, so that tree algorithms can assume
/// that the root has number 0.
class FromRoot {
 public:
  explicit FromRoot(const schedule::Builder& b)
      : FromRoot(index(b.purpose().root), b.ranks(), b.me()) {}
  FromRoot(std::uint32_t root, std::uint32_t ranks, std::uint32_t me)
      : root_(root), ranks_(ranks), me_((me + ranks - root) % ranks) {}

  /// The number of this rank, counted from the root.
  std::uint32_t me() const { return me_; }
  std::uint32_t ranks() const { return ranks_; }
  /// The rank whose number, counted from the root, is `number`.
  Rank rank(std::uint32_t number) const { return rank_of((number + root_) % ranks_); }

 private:
  std::uint32_t root_;
  std::uint32_t ranks_;
  std::uint32_t me_;
};

/// A node of the binomial tree over the numbers 0 to n-1. The numbers of its subtree are
/// consecutive, and the node's own number is the lowest of them.
struct BinomialNode {
  std::uint32_t number;
  /// A power of two. The children of this node are the numbers `number` + 2^i with 2^i < `reach`,
  /// as far as these are less than n.
  std::uint32_t reach;
  std::uint32_t size;  ///< number of nodes in the subtree

  static BinomialNode of(std::uint32_t number, std::uint32_t nodes) {
    const std::uint32_t reach = number == 0 ? std::bit_ceil(nodes) : number & (~number + 1);
    return {number, reach, std::min(reach, nodes - number)};
  }
  std::uint32_t parent() const { return number & (number - 1); }
  bool leaf() const { return size == 1; }
};

}  // namespace tutti::collectives
