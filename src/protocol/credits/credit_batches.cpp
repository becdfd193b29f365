#include "protocol/credits/credit_batches.hpp"

#include <algorithm>

#include "protocol/sequencer.hpp"

namespace tutti::protocol {

CreditBatches::CreditBatches(const BlockLayout& layout, std::uint32_t chains,
                             std::uint64_t window_chunks, std::uint32_t in_flight)
    : layout_(&layout), in_flight_(std::max(1u, in_flight)) {
  const std::vector<Block>& blocks = layout.blocks();
  const Sequencer sequencer(static_cast<std::uint32_t>(blocks.size()), chains);
  const std::uint32_t chain_count = blocks.empty() ? 0 : sequencer.chains();
  const std::uint64_t share = std::max<std::uint64_t>(window_chunks, 1) / std::max(1u, chain_count);
  in_flight_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(share, 1, in_flight_));  // each batch needs at least one chunk
  batch_chunks_ =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share / in_flight_, 1, 0x7fff'ffffu));
  streams_.reserve(chain_count);
  for (std::uint32_t c = 0; c < chain_count; ++c) {
    const Range psns{blocks[index(sequencer.chain_begin(c))].psns.first,
                     blocks[index(sequencer.chain_end(c)) - 1].psns.last};
    const std::uint64_t batches = (std::uint64_t{psns.size()} + batch_chunks_ - 1) / batch_chunks_;
    streams_.push_back({psns, static_cast<std::uint32_t>(batches)});
    needed_ = needed_ || psns.size() > share;
  }
}

Range CreditBatches::range(std::uint32_t chain, std::uint32_t batch) const {
  const Range& psns = streams_[chain].psns;
  const std::uint64_t first = std::uint64_t{psns.first} + std::uint64_t{batch} * batch_chunks_;
  const std::uint64_t last = std::min<std::uint64_t>(first + batch_chunks_, psns.last);
  return {static_cast<std::uint32_t>(std::min<std::uint64_t>(first, psns.last)),
          static_cast<std::uint32_t>(last)};
}

Rank CreditBatches::grantor(std::uint32_t chain, std::uint32_t batch) const {
  if (std::uint64_t{batch} + in_flight_ >= streams_[chain].count) return kNoRank;
  return layout_->blocks()[layout_->block_of(range(chain, batch + in_flight_).first)].root;
}

Range CreditBatches::granted_blocks(std::uint32_t chain, std::uint32_t batch) const {
  const Range permitted = range(chain, batch + in_flight_);
  return {layout_->block_of(permitted.first) + 1, layout_->block_of(permitted.last - 1) + 1};
}

std::uint64_t CreditBatches::messages(std::uint32_t ranks) const {
  if (!needed_) return 0;
  std::uint64_t sum = 0;
  for (const Stream& stream : streams_) {
    if (stream.count <= in_flight_) continue;
    sum += std::uint64_t{stream.count - in_flight_} * (ranks - 1);
    // The grant of a batch goes to the blocks that begin inside the batch; the grantor is the
    // sender of the block with the first chunk of the batch.
    const std::uint32_t begin = stream.psns.first + in_flight_ * batch_chunks_;
    const std::vector<Block>& blocks = layout_->blocks();
    for (std::uint32_t b = layout_->block_of(begin) + 1; b < blocks.size(); ++b) {
      const std::uint32_t first = blocks[b].psns.first;
      if (first >= stream.psns.last) break;
      sum += (first - stream.psns.first) % batch_chunks_ != 0 ? 1 : 0;
    }
  }
  return sum;
}

}  // namespace tutti::protocol
