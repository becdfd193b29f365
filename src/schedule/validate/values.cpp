#include "schedule/validate/values.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace tutti::schedule {

Values::Values(std::uint32_t ranks, std::uint32_t blocks)
    : ranks_(ranks), blocks_(std::max(blocks, 1u)), words_((ranks + 63) / 64) {
  const std::size_t originals = std::size_t{ranks_} * blocks_;
  folds_.resize(1 + originals, Fold{0, false, 0, 0});
  sets_.resize((1 + originals) * words_);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    for (std::uint32_t b = 0; b < blocks_; ++b) {
      const ValueId value = original(r, b);
      folds_[value] = {b, true, r, r + 1};
      sets_[std::size_t{value} * words_ + r / 64] = std::uint64_t{1} << (r % 64);
    }
  }
}

Result<ValueId> Values::combine(ValueId left, ValueId right) {
  if (left == kUnwritten || right == kUnwritten)
    return failure(Code::invalid_argument, "the task folds bytes that no task has written");
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  if (const auto known = combined_.find(pair); known != combined_.end()) return known->second;

  const Fold l = folds_[left];
  const Fold r = folds_[right];
  if (l.block != r.block)
    return failure(Code::invalid_argument,
                   "the task folds a value of block {} with a value of block {}", l.block, r.block);
  for (std::uint32_t w = 0; w < words_; ++w) {
    const std::uint64_t twice = contributors(left)[w] & contributors(right)[w];
    if (twice != 0)
      return failure(Code::invalid_argument, "the task folds the contribution of rank {} twice",
                     w * 64 + static_cast<std::uint32_t>(std::countr_zero(twice)));
  }
  const auto value = static_cast<ValueId>(folds_.size());
  folds_.push_back({l.block, l.ordered && r.ordered && l.last == r.first, l.first, r.last});
  for (std::uint32_t w = 0; w < words_; ++w) {
    const std::uint64_t both = contributors(left)[w] | contributors(right)[w];
    sets_.push_back(both);
  }
  combined_.emplace(pair, value);
  return value;
}

bool Values::complete(ValueId value, std::uint32_t block) const {
  std::uint32_t count = 0;
  for (std::uint32_t w = 0; w < words_; ++w)
    count += static_cast<std::uint32_t>(std::popcount(contributors(value)[w]));
  return count == ranks_ && folds_[value].block == block;
}

bool Values::rank_ordered(ValueId value) const { return folds_[value].ordered; }

std::string Values::contributor_list(ValueId value) const {
  std::string text;
  std::uint32_t named = 0;
  constexpr std::uint32_t kMaxNamed = 8;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if ((contributors(value)[r / 64] >> (r % 64) & 1) == 0) continue;
    if (++named <= kMaxNamed) text += fmt::format("{}{}", named == 1 ? "" : ", ", r);
  }
  if (named > kMaxNamed) text += fmt::format(" and {} more", named - kMaxNamed);
  return text;
}

std::string Values::name(ValueId value) const {
  if (value == kUnwritten) return "nothing";
  if (value <= std::size_t{ranks_} * blocks_)
    return fmt::format("rank {}'s block {}", folds_[value].first, folds_[value].block);
  return fmt::format("the fold of ranks {} of block {}", contributor_list(value),
                     folds_[value].block);
}

}  // namespace tutti::schedule
