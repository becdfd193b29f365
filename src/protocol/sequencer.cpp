#include "protocol/sequencer.hpp"

#include <algorithm>

namespace tutti::protocol {

Sequencer::Sequencer(std::uint32_t size, std::uint32_t chains) : size_(size) {
  const std::uint32_t wanted = std::clamp(chains, 1u, std::max(size, 1u));
  length_ = std::max(1u, (size + wanted - 1) / wanted);
}

Rank Sequencer::chain_end(std::uint32_t chain) const {
  return rank_of(std::min((chain + 1) * length_, size_));
}

Rank Sequencer::successor(Rank rank) const {
  const std::uint32_t next = index(rank) + 1;
  if (next >= size_ || next % length_ == 0) return kNoRank;
  return rank_of(next);
}

Rank Sequencer::predecessor(Rank rank) const {
  return first(rank) ? kNoRank : rank_of(index(rank) - 1);
}

}  // namespace tutti::protocol
