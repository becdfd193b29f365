// The board of the ranks of one host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/slot_exchange.hpp"
#include "device/host/segment.hpp"
#include "device/host/shared_slots.hpp"

namespace tutti::device::host {

class HostBoard final : public Board {
 public:
  /// `segments`: of all ranks, by rank, which outlive this. They are used only after `connect`.
  HostBoard(Rank me, std::span<const Segment> segments)
      : Board(me, static_cast<std::uint32_t>(segments.size())), segments_(segments) {}
  void connect();

  std::size_t max_block_bytes() const override { return BoardShare::kBlockBytes; }
  void leave() override;

  /// Whether `collect` would find something.
  bool pending() const;
  /// Ranks woken so far.
  std::uint64_t wakes() const { return wakes_; }

 private:
  bool place_is_free() override;
  void put() override;
  std::optional<BoardEntry> entry_of(Rank rank) override;
  const BoardLine* line_of(Rank rank) const;

  std::span<const Segment> segments_;
  std::vector<BoardShare> shares_;  ///< by rank
  std::uint64_t left_by_all_ = 0;   ///< meetings that every rank has left, as last seen
  std::uint64_t wakes_ = 0;
};

}  // namespace tutti::device::host
