// What a cell holds, symbolically: a rank's block, or a fold of several ranks' contributions to one
// block. Equal values have equal ids, so a comparison is one of integers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::schedule {

using ValueId = std::uint32_t;
/// Bytes that nobody has written.
inline constexpr ValueId kUnwritten = 0;

class Values {
 public:
  /// `blocks`: that any rank may contribute.
  Values(std::uint32_t ranks, std::uint32_t blocks);

  /// The value that rank `source` has in block `block` of what it contributes.
  ValueId original(std::uint32_t source, std::uint32_t block) const {
    return 1 + source * blocks_ + block;
  }
  /// `left op right`. Errors: unlike blocks, a contribution that both have, unwritten bytes.
  Result<ValueId> combine(ValueId left, ValueId right);

  /// Whether the value holds every rank's contribution to `block`.
  bool complete(ValueId value, std::uint32_t block) const;
  /// Whether it is the fold in rank order, however associated.
  bool rank_ordered(ValueId value) const;
  /// "rank 3's block 0", "the fold of ranks 0, 2 and 5 of block 1", "nothing".
  std::string name(ValueId value) const;

 private:
  /// Contributions to a block: which, and whether they are folded as ranks [first, last) in order.
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
  std::vector<std::uint64_t> sets_;  ///< words_ a value: the ranks that contributed
  std::unordered_map<std::uint64_t, ValueId> combined_;
};

}  // namespace tutti::schedule
