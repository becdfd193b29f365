// The slot exchange of ranks that share one host, in shared memory.
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
  /// `segments` contains the shared segments of all ranks in rank order and must outlive this
  /// object. The segments are used only from `connect` on.
  HostSlotExchange(Rank me, std::span<const Segment> segments)
      : SlotExchange(me, static_cast<std::uint32_t>(segments.size())), segments_(segments) {}
  void connect();

  std::size_t max_block_bytes() const override { return SlotShare::kBlockBytes; }
  std::vector<Rank> awaited_acks() const override;

  /// True if `collect` would return an entry.
  bool pending() const;
  /// Number of times that this rank has woken another rank.
  std::uint64_t wakes() const { return wakes_; }

 private:
  bool slot_is_free() override;
  void publish() override;
  void acknowledge() override;
  std::optional<SlotEntry> entry_of(Rank rank) override;
  const SlotLine* line_of(Rank rank) const;

  std::span<const Segment> segments_;
  std::vector<SlotShare> shares_;  ///< slots of all ranks, indexed by rank
  /// Number of the last exchange that every rank has acknowledged, as last seen by this rank.
  std::uint64_t acked_by_all_ = 0;
  std::uint64_t wakes_ = 0;
};

}  // namespace tutti::device::host
