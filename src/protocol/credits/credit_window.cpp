#include "protocol/credits/credit_window.hpp"

#include <algorithm>
#include <bit>

namespace tutti::protocol {

CreditWindow::CreditWindow(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
                           std::uint32_t chains, std::uint64_t window_chunks,
                           std::uint32_t batches_in_flight)
    : me_(me),
      size_(size),
      epoch_(epoch),
      map_(&map),
      batches_(map.layout(), chains, window_chunks, batches_in_flight),
      chains_(batches_.chains()) {
  for (std::uint32_t c = 0; c < batches_.chains(); ++c) {
    chains_[c].cursor = batches_.psns(c).first;
    chains_[c].reports.resize(batches_.count(c));
  }
}

std::uint32_t CreditWindow::limit(std::uint32_t block_index) const {
  const Block& block = map_->layout().blocks()[block_index];
  if (!needed()) return block.psns.last;
  for (std::uint32_t c = 0; c < batches_.chains(); ++c) {
    const Range stream = batches_.psns(c);
    if (block.psns.first < stream.first || block.psns.last > stream.last) continue;
    const std::uint32_t closed = chains_[c].granted + batches_.in_flight();
    if (closed >= batches_.count(c)) return block.psns.last;
    return std::clamp(batches_.range(c, closed).first, block.psns.first, block.psns.last);
  }
  return block.psns.last;
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
void CreditWindow::advance_cursor(std::uint32_t chain_index, const FetchRing& fetch) {
  const BlockLayout& layout = map_->layout();
  Chain& chain = chains_[chain_index];
  while (chain.cursor < batches_.psns(chain_index).last) {
    const std::uint32_t b = layout.block_of(chain.cursor);
    const Range missing = map_->first_missing(b, {chain.cursor, layout.blocks()[b].psns.last});
    chain.cursor = missing.first;
    if (missing.empty()) continue;
    if (!fetch.proven(chain.cursor)) return;
    ++chain.cursor;
  }
}

void CreditWindow::consume(const FetchRing& fetch, Outbox& outbox) {
  if (!needed()) return;
  for (std::uint32_t c = 0; c < chains_.size(); ++c) {
    Chain& chain = chains_[c];
    advance_cursor(c, fetch);
    while (chain.consumed < batches_.count(c) &&
           chain.cursor >= batches_.range(c, chain.consumed).last) {
      report(c, chain.consumed++, outbox);
    }
  }
}

void CreditWindow::report(std::uint32_t chain_index, std::uint32_t batch, Outbox& outbox) {
  Chain& chain = chains_[chain_index];
  const Rank to = batches_.grantor(chain_index, batch);
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
  const Range blocks = batches_.granted_blocks(chain_index, batch);
  for (std::uint32_t b = blocks.first; b < blocks.last; ++b) {
    const Rank root = map_->layout().blocks()[b].root;
    if (root != me_) outbox.send(root, MessageKind::grant, epoch_, argument);
  }
}

bool CreditWindow::on_credit(Rank from, std::uint64_t argument, Outbox& outbox) {
  const auto chain_index = static_cast<std::uint32_t>(argument >> 32);
  const auto batch = static_cast<std::uint32_t>(argument);
  if (chain_index >= chains_.size() || batch >= batches_.count(chain_index)) return false;
  const Rank to = batches_.grantor(chain_index, batch);
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
  if (chain_index >= chains_.size() || batch >= batches_.count(chain_index)) return false;
  Chain& chain = chains_[chain_index];
  if (from != batches_.grantor(chain_index, batch)) return false;
  chain.granted = std::max(chain.granted, batch + 1);
  return true;
}

}  // namespace tutti::protocol
