// The board of the ranks of one host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/board.hpp"
#include "device/host/segment.hpp"
#include "device/host/shared_board.hpp"

namespace tutti::device::host {

class HostBoard final : public Board {
 public:
  /// `segments`: of all ranks, by rank, which outlive this. They are used only after `connect`.
  HostBoard(Rank me, std::span<const Segment> segments) : me_(me), segments_(segments) {}
  void connect();

  std::size_t max_block_bytes() const override { return BoardShare::kBlockBytes; }
  void enter(const BoardMeeting& meeting, std::span<const std::byte> own) override;
  std::span<const BoardEntry> collect() override;
  bool complete() const override { return !kept_out_ && missing_.empty(); }
  bool kept_out() const override { return kept_out_; }
  std::span<const Rank> missing() const override { return missing_; }
  void leave() override;

  /// Whether `collect` would find something.
  bool pending() const;
  /// Ranks woken so far.
  std::uint64_t wakes() const { return wakes_; }

 private:
  bool place_is_free();
  void put();
  const BoardLine* line_of(Rank rank) const;

  Rank me_;
  std::span<const Segment> segments_;
  std::vector<BoardShare> shares_;  ///< by rank
  std::uint64_t number_ = 0;        ///< of the meeting that this rank is in, or was in last
  std::uint64_t left_by_all_ = 0;   ///< meetings that every rank has left, as last seen
  BoardMeeting meeting_;
  std::span<const std::byte> own_;
  bool kept_out_ = false;
  std::vector<Rank> missing_;
  std::vector<BoardEntry> entries_;
  std::uint64_t wakes_ = 0;
};

}  // namespace tutti::device::host
