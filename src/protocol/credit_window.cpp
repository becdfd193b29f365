#include "protocol/credit_window.hpp"

#include <algorithm>
#include <bit>

namespace tutti::protocol {

CreditWindow::CreditWindow(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
                           std::uint32_t chains, std::uint64_t window_chunks,
                           std::uint32_t batches_in_flight)
    : me_(me), size_(size), epoch_(epoch), map_(&map), in_flight_(std::max(1u, batches_in_flight)) {
  const std::vector<Block>& blocks = map.layout().blocks();
  const Sequencer sequencer(static_cast<std::uint32_t>(blocks.size()), chains);
  const std::uint32_t chain_count = blocks.empty() ? 0 : sequencer.chains();
  const std::uint64_t share = std::max<std::uint64_t>(window_chunks, 1) / std::max(1u, chain_count);
  in_flight_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(share, 1, in_flight_));  // each batch needs at least one chunk
  batch_chunks_ =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share / in_flight_, 1, 0x7fff'ffffu));
  for (std::uint32_t c = 0; c < chain_count; ++c) {
    Chain chain;
    chain.first_block = index(sequencer.chain_begin(c));
    chain.psns = {blocks[chain.first_block].psns.first,
                  blocks[index(sequencer.chain_end(c)) - 1].psns.last};
    chain.cursor = chain.psns.first;
    chain.batch_count = (chain.psns.size() + batch_chunks_ - 1) / batch_chunks_;
    chain.reports.resize(chain.batch_count);
    needed_ = needed_ || chain.psns.size() > share;
    chains_.push_back(std::move(chain));
  }
}

Range CreditWindow::batch_range(const Chain& chain, std::uint32_t batch) const {
  const std::uint64_t first =
      std::uint64_t{chain.psns.first} + std::uint64_t{batch} * batch_chunks_;
  const std::uint64_t last = std::min<std::uint64_t>(first + batch_chunks_, chain.psns.last);
  return {static_cast<std::uint32_t>(std::min<std::uint64_t>(first, chain.psns.last)),
          static_cast<std::uint32_t>(last)};
}

std::uint32_t CreditWindow::limit(std::uint32_t block_index) const {
  const Block& block = map_->layout().blocks()[block_index];
  if (!needed_) return block.psns.last;
  for (const Chain& chain : chains_) {
    if (block.psns.first < chain.psns.first || block.psns.last > chain.psns.last) continue;
    if (chain.granted + in_flight_ >= chain.batch_count) return block.psns.last;
    return std::clamp(batch_range(chain, chain.granted + in_flight_).first, block.psns.first,
                      block.psns.last);
  }
  return block.psns.last;
}

Rank CreditWindow::grantor(const Chain& chain, std::uint32_t batch) const {
  if (batch + in_flight_ >= chain.batch_count) return kNoRank;
  const BlockLayout& layout = map_->layout();
  return layout.blocks()[layout.block_of(batch_range(chain, batch + in_flight_).first)].root;
}

// Reports travel up a binomial tree whose root is the grantor; v is a rank's distance from the
// grantor. The parent of v is v without its lowest set bit; the children of v are v plus each power
// of two below that bit.
std::uint32_t CreditWindow::subtree_children(Rank grantor) const {
  const std::uint32_t relative = (index(me_) + size_ - index(grantor)) % size_;
  const std::uint32_t lowest = relative == 0 ? std::bit_ceil(size_) : relative & (~relative + 1);
  std::uint32_t children = 0;
  for (std::uint32_t bit = 1; bit < lowest && relative + bit < size_; bit <<= 1) ++children;
  return children;
}

// A missing chunk counts as consumed only if its loss is proven. A chunk that was declared lost
// after a cutoff has perhaps not been sent yet, and credit for it would exceed the window. If the
// chunk was sent, its sender waits for credit and sends a tail probe, which proves the loss.
void CreditWindow::advance_cursor(Chain& chain, const FetchRing& fetch) const {
  const BlockLayout& layout = map_->layout();
  while (chain.cursor < chain.psns.last) {
    const std::uint32_t b = layout.block_of(chain.cursor);
    const Range missing = map_->first_missing(b, {chain.cursor, layout.blocks()[b].psns.last});
    chain.cursor = missing.first;
    if (missing.empty()) continue;
    if (!fetch.proven(chain.cursor)) return;
    ++chain.cursor;
  }
}

void CreditWindow::consume(const FetchRing& fetch, Outbox& outbox) {
  if (!needed_) return;
  for (std::uint32_t c = 0; c < chains_.size(); ++c) {
    Chain& chain = chains_[c];
    advance_cursor(chain, fetch);
    while (chain.consumed < chain.batch_count &&
           chain.cursor >= batch_range(chain, chain.consumed).last) {
      report(c, chain.consumed++, outbox);
    }
  }
}

void CreditWindow::report(std::uint32_t chain_index, std::uint32_t batch, Outbox& outbox) {
  Chain& chain = chains_[chain_index];
  const Rank to = grantor(chain, batch);
  if (to == kNoRank) return;
  if (++chain.reports[batch] < subtree_children(to) + 1) return;
  const std::uint64_t argument = std::uint64_t{chain_index} << 32 | batch;
  if (to != me_) {
    const std::uint32_t relative = (index(me_) + size_ - index(to)) % size_;
    const std::uint32_t parent = relative & (relative - 1);
    outbox.send(rank_of((parent + index(to)) % size_), MessageKind::credit, epoch_, argument);
    return;
  }
  chain.granted = std::max(chain.granted, batch + 1);
  const BlockLayout& layout = map_->layout();
  const Range next = batch_range(chain, batch + in_flight_);
  const std::uint32_t last_block = layout.block_of(next.last - 1);
  for (std::uint32_t b = layout.block_of(next.first) + 1; b <= last_block; ++b) {
    const Rank root = layout.blocks()[b].root;
    if (root != me_) outbox.send(root, MessageKind::grant, epoch_, argument);
  }
}

bool CreditWindow::on_credit(Rank from, std::uint64_t argument, Outbox& outbox) {
  const auto chain_index = static_cast<std::uint32_t>(argument >> 32);
  const auto batch = static_cast<std::uint32_t>(argument);
  if (chain_index >= chains_.size() || batch >= chains_[chain_index].batch_count) return false;
  const Rank to = grantor(chains_[chain_index], batch);
  if (to == kNoRank) return false;
  const std::uint32_t relative = (index(from) + size_ - index(to)) % size_;
  const std::uint32_t own = (index(me_) + size_ - index(to)) % size_;
  if (relative == 0 || (relative & (relative - 1)) != own) return false;
  report(chain_index, batch, outbox);
  return true;
}

bool CreditWindow::on_grant(Rank from, std::uint64_t argument) {
  const auto chain_index = static_cast<std::uint32_t>(argument >> 32);
  const auto batch = static_cast<std::uint32_t>(argument);
  if (chain_index >= chains_.size() || batch >= chains_[chain_index].batch_count) return false;
  Chain& chain = chains_[chain_index];
  if (from != grantor(chain, batch)) return false;
  chain.granted = std::max(chain.granted, batch + 1);
  return true;
}

}  // namespace tutti::protocol
