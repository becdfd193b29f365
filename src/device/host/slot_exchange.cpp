#include "device/host/slot_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::host {

using Flow = ExchangeHeader::Flow;

void HostSlotExchange::connect() {
  for (const Segment& one : segments_) shares_.push_back(one.slot_exchange());
}

bool HostSlotExchange::slot_is_free() {
  if (number() <= acked_by_all_ + kSlots) return true;
  std::uint64_t least = number();
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) == me()) continue;
    least = std::min(least, shares_[r].acked().load(std::memory_order_acquire));
  }
  acked_by_all_ = least;
  return number() <= acked_by_all_ + kSlots;
}

std::vector<Rank> HostSlotExchange::awaited_acks() const {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; slot_busy() && r < size(); ++r) {
    const bool acked = number() <= shares_[r].acked().load(std::memory_order_acquire) + kSlots;
    if (rank_of(r) != me() && !acked) ranks.push_back(rank_of(r));
  }
  return ranks;
}

void HostSlotExchange::publish() {
  const SlotShare& mine = shares_[index(me())];
  const std::span<const std::byte> block = own_block();
  SlotLine& line = mine.line(number());
  line.header = header();
  if (!block.empty()) std::memcpy(mine.block(number(), block.size()), block.data(), block.size());
  line.exchange.store(number(), std::memory_order_release);
  if (header().flow == Flow::all_to_root) {
    wakes_ += segments_[index(header().root)].wake_inline() ? 1 : 0;
    return;
  }
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) != me()) wakes_ += segments_[r].wake_inline() ? 1 : 0;
  }
}

/// The slot that `rank` published in the present exchange; null if nothing is published yet.
const SlotLine* HostSlotExchange::line_of(Rank rank) const {
  const SlotLine& line = shares_[index(rank)].line(number());
  return line.exchange.load(std::memory_order_acquire) == number() ? &line : nullptr;
}

std::optional<SlotEntry> HostSlotExchange::entry_of(Rank rank) {
  const SlotLine* const line = line_of(rank);
  if (line == nullptr) return std::nullopt;
  // A faulty peer may announce any size, so a block is never read beyond its slot.
  const ExchangeHeader theirs = line->header;
  const std::size_t bytes = std::min<std::size_t>(theirs.block_bytes, SlotShare::kBlockBytes);
  return SlotEntry{rank, theirs, {shares_[index(rank)].block(number(), bytes), bytes}};
}

void HostSlotExchange::acknowledge() {
  shares_[index(me())].acked().store(number(), std::memory_order_release);
  // At the end of an all-to-all exchange, this rank has the entries of all ranks. Each rank
  // acknowledges the previous exchange before it publishes its entry, so all ranks have
  // acknowledged the previous exchange.
  if (header().flow == Flow::all_to_all) acked_by_all_ = std::max(acked_by_all_, number() - 1);
}

bool HostSlotExchange::pending() const {
  return std::any_of(missing().begin(), missing().end(),
                     [this](Rank rank) { return line_of(rank) != nullptr; });
}

}  // namespace tutti::device::host
