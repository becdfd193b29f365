#include "device/host/board.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::host {

using Flow = BoardMeeting::Flow;

void HostBoard::connect() {
  for (const Segment& one : segments_) shares_.push_back(one.board());
  missing_.reserve(shares_.size());
  entries_.reserve(shares_.size());
}

void HostBoard::enter(const BoardMeeting& meeting, std::span<const std::byte> own) {
  meeting_ = meeting;
  own_ = own;
  ++number_;
  meeting.list_sources(me_, static_cast<std::uint32_t>(shares_.size()), missing_);
  kept_out_ = meeting.has_block_of(me_);
  if (kept_out_) put();
}

/// Everybody has left the meeting whose place this one's would take.
bool HostBoard::place_is_free() {
  if (number_ <= left_by_all_ + BoardShare::kPlaces) return true;
  std::uint64_t least = number_;
  for (std::uint32_t r = 0; r < shares_.size(); ++r) {
    if (rank_of(r) == me_) continue;
    least = std::min(least, shares_[r].left().load(std::memory_order_acquire));
  }
  left_by_all_ = least;
  return number_ <= left_by_all_ + BoardShare::kPlaces;
}

void HostBoard::put() {
  if (!place_is_free()) return;
  kept_out_ = false;
  const BoardShare& mine = shares_[index(me_)];
  BoardLine& line = mine.line(number_);
  line.what = meeting_;
  if (!own_.empty()) std::memcpy(mine.block(number_, own_.size()), own_.data(), own_.size());
  line.meeting.store(number_, std::memory_order_release);
  if (meeting_.flow == Flow::all_to_root) {
    wakes_ += segments_[index(meeting_.root)].wake_at_board() ? 1 : 0;
    return;
  }
  for (std::uint32_t r = 0; r < segments_.size(); ++r) {
    if (rank_of(r) != me_) wakes_ += segments_[r].wake_at_board() ? 1 : 0;
  }
}

/// Null: it has not come yet.
const BoardLine* HostBoard::line_of(Rank rank) const {
  const BoardLine& line = shares_[index(rank)].line(number_);
  return line.meeting.load(std::memory_order_acquire) == number_ ? &line : nullptr;
}

std::span<const BoardEntry> HostBoard::collect() {
  if (kept_out_) put();
  entries_.clear();
  std::erase_if(missing_, [&](Rank rank) {
    const BoardLine* const line = line_of(rank);
    if (line == nullptr) return false;
    // A peer that has gone wrong cannot have us read beyond its place.
    const BoardMeeting what = line->what;
    const std::size_t bytes = std::min<std::size_t>(what.block_bytes, BoardShare::kBlockBytes);
    entries_.push_back({rank, what, {shares_[index(rank)].block(number_, bytes), bytes}});
    return true;
  });
  return entries_;
}

void HostBoard::leave() {
  shares_[index(me_)].left().store(number_, std::memory_order_release);
  // Who is in this meeting has left the one before.
  if (meeting_.flow == Flow::all_to_all) left_by_all_ = std::max(left_by_all_, number_ - 1);
}

bool HostBoard::pending() const {
  return std::any_of(missing_.begin(), missing_.end(),
                     [this](Rank rank) { return line_of(rank) != nullptr; });
}

}  // namespace tutti::device::host
