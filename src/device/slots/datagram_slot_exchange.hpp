// The slot exchange between hosts. Each rank multicasts its block once, or sends it to the only
// rank that reads it. A rank keeps the blocks of other ranks until it has acknowledged the
// exchange. Entries may be lost; the layer above then requests them again (`resend`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/slot_exchange.hpp"

namespace tutti::device::slots {

/// Size in bytes of the slot header before each piece of an entry. A piece is sent as a chunk: its
/// epoch is the number of the exchange, and its PSN is the index of the piece.
inline constexpr std::size_t kSlotHeadBytes = 16;

/// Writes a slot header, kSlotHeadBytes bytes, to `out`.
void encode(const ExchangeHeader& header, std::byte* out);
/// Reads a slot header; false if it is invalid.
bool decode(std::span<const std::byte> bytes, ExchangeHeader& header);

class DatagramSlotExchange final : public SlotExchange {
 public:
  /// The queue pair `pair` must carry no other data and must outlive this object. `chunk_bytes` is
  /// the size of its largest chunk, equal at all ranks.
  DatagramSlotExchange(Rank me, std::uint32_t size, MulticastQueuePair& pair,
                       std::uint32_t chunk_bytes);

  /// Limits the length of chunks. All ranks must pass the same value, before the first exchange.
  void limit_chunks(std::uint32_t chunk_bytes);

  std::size_t max_block_bytes() const override { return max_block_bytes_; }
  bool complete() const override { return SlotExchange::complete() && unsent_ == 0; }

  bool loses() const override { return true; }
  std::uint32_t acked() const override { return static_cast<std::uint32_t>(acked_); }
  bool resend(std::uint32_t missed) override;
  std::span<const std::byte> entry(std::uint32_t missed) const override;
  bool restore(Rank from, std::span<const std::byte> bytes) override;
  void on_acked(Rank rank, std::uint32_t last) override;
  std::vector<Rank> unacked() const override { return ranks_behind(last_published_); }
  std::vector<Rank> awaited_acks() const override;

  /// True while this rank is in an exchange that it has not left.
  bool waits() const { return acked_ != number(); }
  /// Number of authentic chunks that were not a valid part of an entry.
  std::uint64_t rejected() const { return rejected_; }

 private:
  /// The entry of another rank in one exchange, possibly incomplete.
  struct PeerSlot {
    std::uint64_t number = 0;
    ExchangeHeader header;
    std::uint64_t missing_pieces = 0;  ///< bitmap of the pieces that have not arrived
    std::vector<std::byte> block;
  };
  /// This rank's entry in one exchange, as chunks with their headers.
  struct Own {
    std::uint64_t number = 0;
    std::vector<std::byte> chunks;
  };

  std::uint32_t pieces_of(std::uint64_t block_bytes) const;
  std::uint64_t last_user_of_slot() const;
  std::vector<Rank> ranks_behind(std::uint64_t exchange) const;
  PeerSlot& slot_of(Rank rank, std::uint64_t exchange) {
    return peer_slots_[index(rank) * kSlots + exchange % kSlots];
  }
  bool slot_is_free() override;
  void publish() override;
  void acknowledge() override { acked_ = number(); }
  void progress() override;
  std::optional<SlotEntry> entry_of(Rank rank) override;
  bool has_arrived(Rank rank);
  bool all_arrived();
  void send_rest();
  bool accept(const ReceivedChunk& chunk);
  bool store(Rank from, std::uint64_t exchange, std::uint32_t index_of_piece,
             std::span<const std::byte> chunk);

  MulticastQueuePair& pair_;
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t piece_bytes_ = 0;
  std::size_t max_block_bytes_ = 0;
  /// Entries of the other ranks, indexed by rank, then by exchange modulo kSlots.
  std::vector<PeerSlot> peer_slots_;
  /// Number of the last exchange that each rank is known to have acknowledged, indexed by rank.
  std::vector<std::uint64_t> acked_by_;
  std::uint64_t acked_by_all_ = 0;  ///< an exchange that every rank is known to have acknowledged
  std::array<Own, kSlots> own_;
  std::uint64_t acked_ = 0;
  std::uint64_t last_published_ = 0;
  std::uint32_t unsent_ = 0;  ///< chunks of this rank's entry that the send queue has not accepted
  std::array<ReceivedChunk, 64> chunks_;
  std::uint64_t rejected_ = 0;
};

}  // namespace tutti::device::slots
