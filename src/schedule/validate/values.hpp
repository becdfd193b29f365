// The symbolic content of a cell: a rank's block, or a fold of several ranks' contributions to one
// block. Equal values have equal ids, so that values can be compared as integers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

using ValueId = std::uint32_t;
/// The value of bytes that no task has written.
inline constexpr ValueId kUnwritten = 0;

class Values {
 public:
  /// `blocks` is the number of blocks that each rank contributes.
  Values(std::uint32_t ranks, std::uint32_t blocks);

  /// The value of block `block` of the contribution of rank `source`.
  ValueId original(std::uint32_t source, std::uint32_t block) const {
    return 1 + source * blocks_ + block;
  }
  /// The value `left op right`. Fails for different blocks, for a contribution that both have, and
  /// for unwritten bytes.
  Result<ValueId> combine(ValueId left, ValueId right);

  /// True if the value holds every rank's contribution to `block`.
  bool complete(ValueId value, std::uint32_t block) const;
  /// True if the value is a fold in rank order, with any association.
  bool rank_ordered(ValueId value) const;
  /// The value in words: "rank 3's block 0", "the fold of ranks 0, 2 and 5 of block 1", "nothing".
  std::string name(ValueId value) const;

 private:
  /// A fold of contributions to one block, and whether these are folded as ranks [first, last) in
  /// order.
  struct Fold {
    std::uint32_t block;
    bool ordered;
    std::uint32_t first;
    std::uint32_t last;
  };

  const std::uint64_t* contributors(ValueId value) const { return sets_.data() + value * words_; }
  std::string contributor_list(ValueId value) const;

  std::uint32_t ranks_;
  std::uint32_t blocks_;
  std::uint32_t words_;
  std::vector<Fold> folds_;          ///< by value
  std::vector<std::uint64_t> sets_;  ///< words_ words a value: bit set of the contributing ranks
  std::unordered_map<std::uint64_t, ValueId> combined_;
};

}  // namespace tutti::schedule
