#include "device/host/slot_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::host {

using Flow = ExchangeHeader::Flow;

void HostSlotExchange::connect() {
  for (const Segment& one : segments_) shares_.push_back(one.slot_exchange());
}

bool HostSlotExchange::place_is_free() {
  if (number() <= left_by_all_ + kPlaces) return true;
  std::uint64_t least = number();
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) == me()) continue;
    least = std::min(least, shares_[r].left().load(std::memory_order_acquire));
  }
  left_by_all_ = least;
  return number() <= left_by_all_ + kPlaces;
}

void HostSlotExchange::put() {
  const SlotShare& mine = shares_[index(me())];
  const std::span<const std::byte> block = own_block();
  SlotLine& line = mine.line(number());
  line.what = what();
  if (!block.empty()) std::memcpy(mine.block(number(), block.size()), block.data(), block.size());
  line.meeting.store(number(), std::memory_order_release);
  if (what().flow == Flow::all_to_root) {
    wakes_ += segments_[index(what().root)].wake_inline() ? 1 : 0;
    return;
  }
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) != me()) wakes_ += segments_[r].wake_inline() ? 1 : 0;
  }
}

/// Null: it has not come yet.
const SlotLine* HostSlotExchange::line_of(Rank rank) const {
  const SlotLine& line = shares_[index(rank)].line(number());
  return line.meeting.load(std::memory_order_acquire) == number() ? &line : nullptr;
}

std::optional<SlotEntry> HostSlotExchange::entry_of(Rank rank) {
  const SlotLine* const line = line_of(rank);
  if (line == nullptr) return std::nullopt;
  // A peer that has gone wrong cannot have us read beyond its place.
  const ExchangeHeader theirs = line->what;
  const std::size_t bytes = std::min<std::size_t>(theirs.block_bytes, SlotShare::kBlockBytes);
  return SlotEntry{rank, theirs, {shares_[index(rank)].block(number(), bytes), bytes}};
}

void HostSlotExchange::leave() {
  shares_[index(me())].left().store(number(), std::memory_order_release);
  // Who is in this meeting has left the one before.
  if (what().flow == Flow::all_to_all) left_by_all_ = std::max(left_by_all_, number() - 1);
}

bool HostSlotExchange::pending() const {
  return std::any_of(missing().begin(), missing().end(),
                     [this](Rank rank) { return line_of(rank) != nullptr; });
}

}  // namespace tutti::device::host
