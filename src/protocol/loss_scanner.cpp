#include "protocol/loss_scanner.hpp"

#include <algorithm>

namespace tutti::protocol {

LossScanner::LossScanner(const ChunkMap& map) : map_(&map) {
  const BlockLayout& layout = map.layout();
  for (const Block& block : layout.blocks()) {
    for (std::uint32_t s = 0; s < layout.subgroups(); ++s) {
      streams_.push_back({block.psns.first, block.psns.first});
    }
  }
  ended_.resize(layout.blocks().size());
}

void LossScanner::tick(std::vector<LostRun>& lost) {
  const BlockLayout& layout = map_->layout();
  auto at = streams_.begin();
  for (std::uint32_t b = 0; b < layout.blocks().size(); ++b) {
    const std::uint32_t end = layout.blocks()[b].psns.last;
    for (std::uint32_t s = 0; s < layout.subgroups(); ++s) {
      Stream& stream = *at++;
      if (stream.scanned == end) continue;
      if (stream.seen > stream.scanned) {
        scan(b, s, {stream.scanned, stream.seen}, lost);
        stream.scanned = stream.seen;
      }
      stream.seen = ended_[b] ? end : std::max(stream.seen, map_->horizon(b, s));
    }
  }
}

void LossScanner::scan(std::uint32_t block_index, std::uint32_t subgroup, Range psns,
                       std::vector<LostRun>& lost) const {
  const BlockLayout& layout = map_->layout();
  const std::uint32_t base = layout.blocks()[block_index].psns.first;
  const std::uint32_t segment = layout.segment_chunks();
  const std::uint32_t slice = layout.slice_chunks();
  // Each segment of the block has one slice of this subgroup. The loop visits the slices that
  // overlap `psns`.
  for (std::uint32_t start = base + (psns.first - base) / segment * segment + subgroup * slice;
       start < psns.last; start += segment) {
    Range within{std::max(start, psns.first), std::min(start + slice, psns.last)};
    while (within.first < within.last) {
      const Range run = map_->first_missing(block_index, within);
      if (run.empty()) break;
      lost.push_back({block_index, run, true});
      within.first = run.last;
    }
  }
}

}  // namespace tutti::protocol
