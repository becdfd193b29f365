// The messages between protocol machines of different ranks, sent over reliable connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "tutti/units.hpp"

namespace tutti::protocol {

enum class MessageKind : std::uint8_t {
  barrier = 1,    ///< ready barrier; argument: round and rate vote
  activate,       ///< the receiver, next sender of the chain, may begin
  fetch_request,  ///< chunk ranges that the sender misses
  fetch_ready,    ///< chunk ranges that may be READ now; argument: key of the sender's buffer
  /// Chunk ranges that have not arrived at the sender yet; `fetch_ready` follows.
  fetch_pending,
  fetch_lost,          ///< chunk ranges that the sender lost, too; `fetch_ready` follows
  fetch_expired,       ///< the sender has ended the collective: ask another rank
  retransmit_request,  ///< to a block's root: chunk ranges that at least two ranks lost
  final,               ///< the sender has every chunk of the collective
  /// Argument: chain << 32 | batch, which all ranks of the sender's subtree have consumed.
  credit,
  grant,  ///< argument: chain << 32 | batch, which every rank has consumed
  /// Argument: the lost rank; in the upper half 1 + a rank of the job if the cause is outside this
  /// communicator, else 0. epoch: length of the packets that do not reach that rank, else 0.
  failed,
  window,  ///< argument: key of the receiver's part of the sender's aggregator window
  /// Argument: number of segments of the call that the receiver may have written in all.
  credit_batch,
  refused,           ///< argument: reason << 32 | rank at fault; the sender ends the collective
  leave,             ///< the sender starts no further collective
  delivered,         ///< the sender has every block multicast to it up to this epoch
  slot_nack,         ///< epoch: a slot exchange in which the sender misses the receiver's entry
  slot_ack_request,  ///< asks the receiver for its last acknowledged slot exchange
  /// Epoch: last slot exchange that the sender has finished; argument 1: the sender closes its
  /// communicator.
  slot_ack,
  last_kind = slot_ack,
};

/// Largest number of ranges in a message: it keeps a message short enough for the device to copy it
/// when it is posted.
inline constexpr std::size_t kMaxRanges = 28;

struct Message {
  MessageKind kind = MessageKind::barrier;
  std::uint32_t epoch = 0;
  std::uint64_t argument = 0;
  std::uint32_t range_count = 0;
  std::array<Range, kMaxRanges> ranges{};

  std::span<const Range> range_list() const { return {ranges.data(), range_count}; }
  /// Appends a range; false if the message is full.
  bool add(Range range) {
    if (range_count == kMaxRanges) return false;
    ranges[range_count++] = range;
    return true;
  }
};

/// Size of the largest encoded message.
inline constexpr std::size_t kMaxMessageBytes = 1 + 1 + 2 + 4 + 8 + kMaxRanges * 8;

/// Writes a message to `out`, which has kMaxMessageBytes, and returns the encoded length.
std::size_t encode(const Message& message, std::byte* out);
/// Decodes a message; nothing unless the bytes are exactly one message.
std::optional<Message> decode(std::span<const std::byte> bytes);
const char* to_string(MessageKind kind);

/// The messages that a protocol machine wants to send. The engine sends them and then empties the
/// outbox.
class Outbox {
 public:
  struct Item {
    Rank to = kNoRank;
    Message message;
  };

  void send(Rank to, MessageKind kind, std::uint32_t epoch, std::uint64_t argument = 0) {
    Item& item = next();
    item.to = to;
    item.message.kind = kind;
    item.message.epoch = epoch;
    item.message.argument = argument;
    item.message.range_count = 0;
  }
  void send(Rank to, const Message& message) {
    Item& item = next();
    item.to = to;
    item.message = message;
  }
  std::span<const Item> items() const { return {items_.data(), used_}; }
  bool empty() const { return used_ == 0; }
  void clear() { used_ = 0; }

 private:
  // Items are reused, not freed, so that an outbox allocates nothing once it has reached its
  // largest size.
  Item& next() {
    if (used_ == items_.size()) items_.emplace_back();
    return items_[used_++];
  }

  std::vector<Item> items_;
  std::size_t used_ = 0;
};

}  // namespace tutti::protocol
