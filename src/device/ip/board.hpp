// A board between hosts: each rank multicasts its block once, and every rank keeps what the others
// have put there for the meetings that it has yet to leave. Entries may be lost; the layer above
// asks for them (`put_again`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/board.hpp"
#include "device/device.hpp"

namespace tutti::device::ip {

/// What precedes a piece of an entry in its chunk. The chunk's epoch is the meeting's number, its
/// PSN the piece's.
inline constexpr std::size_t kBoardHeadBytes = 16;

/// Writes kBoardHeadBytes.
void encode(const BoardMeeting& meeting, std::byte* out);
/// Reads them; false where they are none.
bool decode(std::span<const std::byte> bytes, BoardMeeting& meeting);

class IpBoard final : public Board {
 public:
  /// Meetings that a rank may be ahead of others.
  static constexpr std::uint32_t kPlaces = 8;

  /// `pair` is the board's alone. `chunk_bytes`: of its longest chunk, the same at all ranks.
  IpBoard(Rank me, std::uint32_t size, std::unique_ptr<MulticastQueuePair> pair,
          std::uint32_t chunk_bytes);

  std::size_t max_block_bytes() const override { return max_block_bytes_; }
  void enter(const BoardMeeting& meeting, std::span<const std::byte> own) override;
  std::span<const BoardEntry> collect() override;
  bool complete() const override { return !kept_out_ && unsent_ == 0 && missing_.empty(); }
  bool kept_out() const override { return kept_out_; }
  std::span<const Rank> missing() const override { return missing_; }
  void leave() override { left_ = number_; }

  bool loses() const override { return true; }
  std::uint32_t meeting() const override { return static_cast<std::uint32_t>(number_); }
  std::uint32_t left() const override { return static_cast<std::uint32_t>(left_); }
  bool put_again(std::uint32_t meeting) override;
  void on_left(Rank rank, std::uint32_t meeting) override;
  std::vector<Rank> behind() const override;

  /// Becomes readable when entries come.
  int receive_descriptor() const { return pair_->receive_descriptor(); }
  /// In a meeting, and not through.
  bool waits() const { return left_ != number_; }
  /// Chunks that were no part of an entry.
  std::uint64_t rejected() const { return rejected_; }

 private:
  /// What another rank has put there for a meeting.
  struct Place {
    std::uint64_t number = 0;
    BoardMeeting meeting;
    std::uint64_t missing_pieces = 0;  ///< a bit each
    std::vector<std::byte> block;
  };
  /// What this rank has put there: chunks, heads included.
  struct Own {
    std::uint64_t number = 0;
    std::vector<std::byte> chunks;
  };

  std::uint32_t pieces_of(std::uint64_t block_bytes) const;
  Place& place_of(Rank rank, std::uint64_t number) {
    return places_[index(rank) * kPlaces + number % kPlaces];
  }
  bool place_is_free() const;
  void put();
  void send_rest();
  void receive();
  bool accept(const ReceivedChunk& chunk);

  Rank me_;
  std::unique_ptr<MulticastQueuePair> pair_;
  std::uint32_t chunk_bytes_;
  std::uint32_t piece_bytes_;
  std::size_t max_block_bytes_;
  std::vector<Place> places_;           ///< by rank, then meeting
  std::vector<std::uint64_t> left_by_;  ///< by rank: the last meeting that it is known to have left
  std::array<Own, kPlaces> own_;
  std::uint64_t number_ = 0;  ///< of the meeting that this rank is in, or was in last
  std::uint64_t left_ = 0;
  std::uint64_t last_put_ = 0;
  BoardMeeting meeting_;
  std::span<const std::byte> own_block_;
  bool kept_out_ = false;
  std::uint32_t unsent_ = 0;  ///< chunks of the own entry that the send queue did not take
  std::vector<Rank> missing_;
  std::vector<BoardEntry> entries_;
  std::array<ReceivedChunk, 64> chunks_;
  std::uint64_t rejected_ = 0;
};

}  // namespace tutti::device::ip
