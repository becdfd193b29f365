// The symbolic content of a cell: a rank's block, or a fold of several ranks' contributions to one
// block. Equal contents have equal ids, so that contents are compared as integers.
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

  /// The value of the block with index `block` that rank `source` contributes.
  ValueId original(std::uint32_t source, std::uint32_t block) const {
    return 1 + source * blocks_ + block;
  }
  /// The value `left op right`. Fails if the operands belong to different blocks, share a
  /// contribution or contain unwritten bytes.
  Result<ValueId> combine(ValueId left, ValueId right);

  /// True if the value contains every rank's contribution to `block`.
  bool complete(ValueId value, std::uint32_t block) const;
  /// True if the value folds contributions in rank order, with any association.
  bool rank_ordered(ValueId value) const;
  /// The text of a value, such as "rank 3's block 0", "the fold of ranks 0, 2 and 5 of block 1" or
  /// "nothing".
  std::string name(ValueId value) const;

 private:
  /// A fold of contributions to one block. If `ordered`, it is the fold of ranks [first, last) in
  /// rank order.
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
  std::vector<Fold> folds_;  ///< content of each value, indexed by ValueId
  /// For each value, the contributing ranks as a bit set of `words_` words.
  std::vector<std::uint64_t> sets_;
  std::unordered_map<std::uint64_t, ValueId> combined_;
};

}  // namespace tutti::schedule
