// A board between hosts: each rank multicasts its block once, or sends it to the one rank that
// reads it, and every rank keeps what the others have put there for the meetings that it has yet to
// leave. Entries may be lost; the layer above asks for them (`resend`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/slot_exchange.hpp"

namespace tutti::device::ip {

/// What precedes a piece of an entry in its chunk. The chunk's epoch is the meeting's number, its
/// PSN the piece's.
inline constexpr std::size_t kSlotHeadBytes = 16;

/// Writes kSlotHeadBytes.
void encode(const ExchangeHeader& meeting, std::byte* out);
/// Reads them; false where they are none.
bool decode(std::span<const std::byte> bytes, ExchangeHeader& meeting);

class IpSlotExchange final : public SlotExchange {
 public:
  /// `pair` is the board's alone, and outlives it. `chunk_bytes`: of its longest chunk, the same at
  /// all ranks.
  IpSlotExchange(Rank me, std::uint32_t size, MulticastQueuePair& pair, std::uint32_t chunk_bytes);

  std::size_t max_block_bytes() const override { return max_block_bytes_; }
  bool complete() const override { return SlotExchange::complete() && unsent_ == 0; }
  void leave() override { left_ = number(); }

  bool loses() const override { return true; }
  std::uint32_t left() const override { return static_cast<std::uint32_t>(left_); }
  bool resend(std::uint32_t missed) override;
  void on_left(Rank rank, std::uint32_t last) override;
  std::vector<Rank> behind() const override;

  /// In a meeting, and not through.
  bool waits() const { return left_ != number(); }
  /// Chunks that were no part of an entry.
  std::uint64_t rejected() const { return rejected_; }

 private:
  /// What another rank has put there for a meeting.
  struct PeerSlot {
    std::uint64_t number = 0;
    ExchangeHeader meeting;
    std::uint64_t missing_pieces = 0;  ///< a bit each
    std::vector<std::byte> block;
  };
  /// What this rank has put there: chunks, heads included.
  struct Own {
    std::uint64_t number = 0;
    std::vector<std::byte> chunks;
  };

  std::uint32_t pieces_of(std::uint64_t block_bytes) const;
  PeerSlot& place_of(Rank rank, std::uint64_t meeting_number) {
    return places_[index(rank) * kPlaces + meeting_number % kPlaces];
  }
  bool place_is_free() override;
  void put() override;
  void exchange() override;
  std::optional<SlotEntry> entry_of(Rank rank) override;
  bool is_here(Rank rank);
  bool all_here();
  void send_rest();
  bool accept(const ReceivedChunk& chunk);

  MulticastQueuePair& pair_;
  std::uint32_t chunk_bytes_;
  std::uint32_t piece_bytes_;
  std::size_t max_block_bytes_;
  std::vector<PeerSlot> places_;        ///< by rank, then meeting
  std::vector<std::uint64_t> left_by_;  ///< by rank: the last meeting that it is known to have left
  std::array<Own, kPlaces> own_;
  std::uint64_t left_ = 0;
  std::uint64_t last_put_ = 0;
  std::uint32_t unsent_ = 0;  ///< chunks of the own entry that the send queue did not take
  std::array<ReceivedChunk, 64> chunks_;
  std::uint64_t rejected_ = 0;
};

}  // namespace tutti::device::ip
