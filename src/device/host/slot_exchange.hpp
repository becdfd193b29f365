// The board of the ranks of one host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/host/segment.hpp"
#include "device/host/shared_slots.hpp"
#include "device/slot_exchange.hpp"

namespace tutti::device::host {

class HostSlotExchange final : public SlotExchange {
 public:
  /// `segments`: of all ranks, by rank, which outlive this. They are used only after `connect`.
  HostSlotExchange(Rank me, std::span<const Segment> segments)
      : SlotExchange(me, static_cast<std::uint32_t>(segments.size())), segments_(segments) {}
  void connect();

  std::size_t max_block_bytes() const override { return SlotShare::kBlockBytes; }
  void leave() override;

  /// Whether `collect` would find something.
  bool pending() const;
  /// Ranks woken so far.
  std::uint64_t wakes() const { return wakes_; }

 private:
  bool place_is_free() override;
  void put() override;
  std::optional<SlotEntry> entry_of(Rank rank) override;
  const SlotLine* line_of(Rank rank) const;

  std::span<const Segment> segments_;
  std::vector<SlotShare> shares_;  ///< by rank
  std::uint64_t left_by_all_ = 0;  ///< meetings that every rank has left, as last seen
  std::uint64_t wakes_ = 0;
};

}  // namespace tutti::device::host
